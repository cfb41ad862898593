//! Random programs as trees whose nodes can be left out one by one, which is how a failing program
//! is made small.

/// A statement: text with bodies in between. Any node of any body can be left out and the program
/// is still valid.
#[derive(Clone, Debug, Default)]
pub struct Node {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Body(Vec<Node>),
}

impl Node {
    /// A statement without bodies.
    pub fn text(text: impl Into<String>) -> Node {
        Node {
            parts: vec![Part::Text(text.into())],
        }
    }

    /// Adds text behind what is there.
    pub fn with(mut self, text: impl Into<String>) -> Node {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Adds a body behind what is there.
    pub fn body(mut self, nodes: Vec<Node>) -> Node {
        self.parts.push(Part::Body(nodes));
        self
    }

    fn write(&self, out: &mut String) {
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Body(nodes) => nodes.iter().for_each(|node| node.write(out)),
            }
        }
    }

    fn bodies(&mut self) -> impl Iterator<Item = &mut Vec<Node>> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Body(nodes) => Some(nodes),
            Part::Text(_) => None,
        })
    }
}

/// All the text below `nodes`.
pub fn text(nodes: &[Node]) -> String {
    let mut out = String::new();
    nodes.iter().for_each(|node| node.write(&mut out));
    out
}

/// Number of nodes that [`remove`] counts: all but the outermost ones.
pub fn count(nodes: &mut [Node]) -> usize {
    nodes
        .iter_mut()
        .flat_map(Node::bodies)
        .map(|body| body.len() + count(body))
        .sum()
}

/// Leaves out `n` nodes, from the `start`-th on, each with all that is below it. Outer nodes come
/// before inner ones.
pub fn remove(nodes: &mut [Node], start: usize, n: usize) {
    remove_at(nodes, &mut 0, start..start + n);
}

fn remove_at(nodes: &mut [Node], position: &mut usize, range: std::ops::Range<usize>) {
    for body in nodes.iter_mut().flat_map(Node::bodies) {
        let first = *position;
        *position += body.len();
        let mut idx = first;
        body.retain(|_| {
            idx += 1;
            !range.contains(&(idx - 1))
        });
        remove_at(body, position, range.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_left_out() {
        let inner = Node::text("<")
            .body(vec![Node::text("b"), Node::text("c")])
            .with(">");
        let tree = vec![Node::default().body(vec![Node::text("a"), inner, Node::text("d")])];
        assert_eq!(
            (text(&tree).as_str(), count(&mut tree.clone())),
            ("a<bc>d", 5)
        );
        let without = |start, n| {
            let mut tree = tree.clone();
            remove(&mut tree, start, n);
            text(&tree)
        };
        assert_eq!(without(0, 1), "<bc>d");
        assert_eq!(without(1, 2), "a");
        assert_eq!(without(3, 1), "a<c>d");
    }
}
