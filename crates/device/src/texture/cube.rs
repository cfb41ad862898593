//! Directions from the centre of a cube to places on its faces. CUDA C++ Programming Guide,
//! "Cubemap Textures".

/// The face (+x, -x, +y, -y, +z, -z) that a direction meets, with the coordinate of greatest
/// magnitude and the two others in the directions of the face.
fn major(direction: [f64; 3]) -> (u32, f64, [f64; 2]) {
    let [s, t, r] = direction;
    let [size_s, size_t, size_r] = direction.map(f64::abs);
    if size_s >= size_t && size_s >= size_r {
        if s >= 0.0 {
            (0, s, [-r, -t])
        } else {
            (1, -s, [r, -t])
        }
    } else if size_t >= size_r {
        if t >= 0.0 {
            (2, t, [s, r])
        } else {
            (3, -t, [s, -r])
        }
    } else if r >= 0.0 {
        (4, r, [s, -t])
    } else {
        (5, -r, [-s, -t])
    }
}

/// The face that a direction meets, and where: both coordinates from 0 to 1. A direction that is
/// none meets the middle of the first.
pub(super) fn face(direction: [f64; 3]) -> (u32, [f64; 2]) {
    let (face, length, place) = major(direction);
    let scale = |place: f64| (place / length + 1.0) / 2.0;
    match length > 0.0 {
        true => (face, place.map(scale)),
        false => (face, [0.5; 2]),
    }
}

/// How fast the place on the face moves when the direction does.
pub(super) fn derivative(direction: [f64; 3], by: [f64; 3]) -> [f64; 3] {
    let (face, length, place) = major(direction);
    let [s, t, r] = by;
    let (along, across) = match face {
        0 => (s, [-r, -t]),
        1 => (-s, [r, -t]),
        2 => (t, [s, r]),
        3 => (-t, [s, -r]),
        4 => (r, [s, -t]),
        _ => (-r, [-s, -t]),
    };
    let on = |n: usize| (across[n] * length - place[n] * along) / (2.0 * length * length);
    match length > 0.0 {
        true => [on(0), on(1), 0.0],
        false => [0.0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_meet_the_middles_of_faces() {
        for (n, direction) in [
            [1.0, 0.0, 0.0],
            [-1.0, 0.0, 0.0],
            [0.0, 1.0, 0.0],
            [0.0, -1.0, 0.0],
            [0.0, 0.0, 1.0],
            [0.0, 0.0, -1.0],
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(face(direction), (n as u32, [0.5; 2]));
        }
        // The table of the guide: on +x, the coordinates are -z and -y.
        assert_eq!(face([2.0, 1.0, -1.0]), (0, [0.75, 0.25]));
    }

    #[test]
    fn derivatives_are_differences() {
        let (direction, step) = ([0.3, -2.0, 0.7], [1e-6, 2e-6, -3e-6]);
        let moved = std::array::from_fn(|n| direction[n] + step[n]);
        let ((_, from), (_, to)) = (face(direction), face(moved));
        let found = derivative(direction, step);
        for n in 0..2 {
            assert!((to[n] - from[n] - found[n]).abs() < 1e-10);
        }
    }
}
