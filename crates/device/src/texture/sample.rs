//! Reads of textures: from coordinates to elements, and mixtures of them.
//!
//! The formulas are those of the CUDA C++ Programming Guide, "Texture Fetching": with `linear`, the
//! elements around `x - 0.5` are mixed by weights of 8 bits of fraction; address modes apply to the
//! elements found so. All of it is worked out for [`LANES`] threads at once, each step for all of
//! them, in double precision, in which products of floats and sizes are exact.

use ptxjit_ir::{Fetch, Lod};

use super::LANES;
use super::cube;
use super::object::{AddressMode, Image, Level, Resource, Sampler, Shape, Texture};
use super::texel::{Colors, Texels, Words, absent, load};

/// A number for each lane.
pub(super) type Numbers = [f64; LANES];
/// An index for each lane.
type Indices = [i32; LANES];

/// Farther away than any element, and within the range of an index.
const FAR: f64 = (1 << 30) as f64;

/// What a read works with.
pub(super) struct Site<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) texture: &'a Texture,
    pub(super) sampler: &'a Sampler,
    /// Lanes that take part.
    pub(super) live: [bool; LANES],
}

/// Where each lane reads.
struct Spots {
    /// Coordinates of the axes of a layer.
    axes: [Numbers; 3],
    layers: Words,
    offsets: [Indices; 3],
    /// What elements are compared with.
    depth: Option<Words>,
}

/// Levels that a lane reads, and the weight of the second in parts of 256.
#[derive(Copy, Clone, PartialEq)]
struct Mip {
    level: u32,
    weight: f64,
}

impl Site<'_> {
    fn image(&self) -> &Image {
        &self.texture.image
    }

    /// Reads for all lanes. `args` are the operands behind the handles; `open` gives the memory of
    /// a level.
    #[inline(always)]
    pub(super) fn read<T: Texels>(
        &self,
        args: &[Words],
        mut open: impl FnMut(usize) -> T,
    ) -> Colors {
        let spots = self.spots(args);
        if self.fetch.lod == Lod::Base || self.image().levels.len() == 1 {
            return self.at_level(&spots, 0, &mut open(0));
        }
        let mips = self.mips(args);
        let mut colors = absent(self.texture);
        let mut done = [false; LANES];
        for lane in 0..LANES {
            if done[lane] || !self.live[lane] {
                continue;
            }
            let Mip { level, weight } = mips[lane];
            let level = level as usize;
            let here = self.at_level(&spots, level, &mut open(level));
            let next =
                (weight != 0.0).then(|| self.at_level(&spots, level + 1, &mut open(level + 1)));
            for other in lane..LANES {
                if mips[other] != mips[lane] {
                    continue;
                }
                done[other] = true;
                for (channel, values) in colors.iter_mut().enumerate() {
                    values[other] = match &next {
                        None => here[channel][other],
                        Some(next) => mix(here[channel][other], next[channel][other], weight),
                    };
                }
            }
        }
        colors
    }

    /// Decodes the operands.
    #[inline(always)]
    fn spots(&self, args: &[Words]) -> Spots {
        let geometry = self.fetch.geometry;
        let n_indices = geometry.n_indices();
        let n_axes = geometry.n_axes();
        let coords = &args[n_indices..n_indices + n_axes];
        let mut axes = [[0.0; LANES]; 3];
        for (axis, words) in axes.iter_mut().zip(coords) {
            for (number, &word) in axis.iter_mut().zip(words) {
                *number = match self.fetch.integer {
                    true => f64::from(word as i32),
                    false => f64::from(f32::from_bits(word)),
                };
            }
        }
        let mut layers = match self.image().shape.is_layered() && n_indices > 0 {
            true => args[n_indices - 1],
            false => [0; LANES],
        };
        if geometry.n_axes() == 3 && self.image().shape.n_dims() == 2 {
            self.project(&mut axes, &mut layers);
        }
        let last = self.image().layers - 1;
        layers
            .iter_mut()
            .for_each(|layer| *layer = (*layer).min(last));
        let rest = args.len() - usize::from(self.fetch.depth);
        let mut offsets = [[0; LANES]; 3];
        let first = rest - self.fetch.n_offsets();
        for (offset, words) in offsets.iter_mut().zip(&args[first..rest]) {
            *offset = words.map(|word| word as i32);
        }
        Spots {
            axes,
            layers,
            offsets,
            depth: self.fetch.depth.then(|| args[rest]),
        }
    }

    /// From directions to faces of a cube and places on them.
    fn project(&self, axes: &mut [Numbers; 3], layers: &mut Words) {
        let n_cubes = self.image().layers / 6;
        for lane in 0..LANES {
            let direction = [axes[0][lane], axes[1][lane], axes[2][lane]];
            let (face, [u, v]) = cube::face(direction);
            layers[lane] = layers[lane].min(n_cubes - 1) * 6 + face;
            (axes[0][lane], axes[1][lane]) = (u, v);
        }
    }

    /// The levels that each lane reads.
    fn mips(&self, args: &[Words]) -> [Mip; LANES] {
        let geometry = self.fetch.geometry;
        let top = (self.image().levels.len() - 1) as f64;
        let first = geometry.n_coordinates();
        std::array::from_fn(|lane| {
            let lod = match self.fetch.lod {
                Lod::Base => 0.0,
                Lod::Level if self.fetch.integer => {
                    let level = f64::from(args[first][lane] as i32).clamp(0.0, top);
                    return Mip {
                        level: level as u32,
                        weight: 0.0,
                    };
                }
                Lod::Level => f64::from(f32::from_bits(args[first][lane])),
                Lod::Grad => self.gradient_lod(args, lane),
            };
            self.mip(lod, top)
        })
    }

    fn mip(&self, lod: f64, top: f64) -> Mip {
        let [least, most] = self.sampler.mip_clamp.map(f64::from);
        let lod = lod + f64::from(self.sampler.mip_bias);
        // A level of detail that is no number counts as 0.
        let lod = if lod.is_nan() { 0.0 } else { lod };
        let lod = lod.max(least).min(most).min(top).max(0.0);
        if !self.sampler.mip_linear {
            return Mip {
                level: (lod + 0.5).floor() as u32,
                weight: 0.0,
            };
        }
        let level = lod.floor();
        let weight = ((lod - level) * 256.0 + 0.5).floor() / 256.0;
        match weight {
            1.0 => Mip {
                level: level as u32 + 1,
                weight: 0.0,
            },
            weight => Mip {
                level: level as u32,
                weight,
            },
        }
    }

    /// The level of detail at which neighbours are one element apart: by the longer of the two
    /// derivatives.
    fn gradient_lod(&self, args: &[Words], lane: usize) -> f64 {
        let geometry = self.fetch.geometry;
        let n_axes = geometry.n_axes();
        let first = geometry.n_coordinates();
        let vector = |at: usize| -> [f64; 3] {
            let value = |n: usize| f64::from(f32::from_bits(args[at + n][lane]));
            std::array::from_fn(|n| if n < n_axes { value(n) } else { 0.0 })
        };
        let size = self.image().base().size;
        let is_cube = n_axes == 3 && self.image().shape != Shape::D3;
        let length = |derivative: [f64; 3]| {
            let on_face = match is_cube {
                true => cube::derivative(vector(geometry.n_indices()), derivative),
                false => derivative,
            };
            let squares = on_face.iter().zip(size).map(|(&d, n)| {
                let scale = match self.sampler.normalized {
                    true => f64::from(n),
                    false => 1.0,
                };
                (d * scale) * (d * scale)
            });
            squares.sum::<f64>().sqrt()
        };
        let rho = length(vector(first)).max(length(vector(first + n_axes)));
        if rho > 0.0 { rho.log2() } else { 0.0 }
    }

    /// Reads one level for all lanes.
    #[inline(always)]
    fn at_level(&self, spots: &Spots, level: usize, texels: &mut impl Texels) -> Colors {
        let level = &self.image().levels[level];
        if self.fetch.integer {
            let index = |d: usize| -> Indices {
                std::array::from_fn(|lane| {
                    let place = spots.axes[d][lane] + f64::from(spots.offsets[d][lane]);
                    to_index(place)
                })
            };
            return self.elements(spots, level, texels, [index(0), index(1), index(2)]);
        }
        let place = |d: usize| -> Numbers {
            let scale = match self.sampler.normalized {
                true => f64::from(level.size[d]),
                false => 1.0,
            };
            std::array::from_fn(|lane| {
                let place = spots.axes[d][lane] * scale + f64::from(spots.offsets[d][lane]);
                hold(place)
            })
        };
        let n_dims = self.image().shape.n_dims();
        let mut places = [[0.0; LANES]; 3];
        for (d, numbers) in places.iter_mut().enumerate().take(n_dims) {
            *numbers = place(d);
        }
        match self.fetch.gather {
            Some(component) => self.gather(spots, level, texels, &places, component.into()),
            None if self.sampler.linear => self.linear(spots, level, texels, &places),
            None => {
                let index = places.map(|numbers| numbers.map(|place| to_index(place.floor())));
                self.elements(spots, level, texels, index)
            }
        }
    }

    /// The elements at indices, after address modes.
    #[inline(always)]
    fn elements(
        &self,
        spots: &Spots,
        level: &Level,
        texels: &mut impl Texels,
        index: [Indices; 3],
    ) -> Colors {
        let n_dims = self.image().shape.n_dims();
        let mut resolved = [([0; LANES], [true; LANES]); 3];
        for d in 0..n_dims {
            resolved[d] = self.resolve(&index[d], level.size[d], d);
        }
        let [x, y, z] = &resolved;
        self.element(spots, level, texels, [x, y, z])
    }

    /// Mixes the elements around a place.
    #[inline(always)]
    fn linear(
        &self,
        spots: &Spots,
        level: &Level,
        texels: &mut impl Texels,
        places: &[Numbers; 3],
    ) -> Colors {
        let n_dims = self.image().shape.n_dims();
        // Of each axis, both neighbours and their weights.
        let mut sides = [[([0; LANES], [true; LANES]); 2]; 3];
        let mut weights = [[[1.0; LANES]; 2]; 3];
        for d in 0..n_dims {
            let first: Numbers = places[d].map(|place| (place - 0.5).floor());
            for lane in 0..LANES {
                let fraction = places[d][lane] - 0.5 - first[lane];
                let weight = (fraction * 256.0 + 0.5).floor() * (1.0 / 256.0);
                weights[d][0][lane] = 1.0 - weight;
                weights[d][1][lane] = weight;
            }
            let first = first.map(to_index);
            sides[d][0] = self.resolve(&first, level.size[d], d);
            sides[d][1] = self.resolve(&first.map(|index| index + 1), level.size[d], d);
        }
        let channels = self.image().channels as usize;
        let mut sums = [[0.0; LANES]; 4];
        for corner in 0..1 << n_dims {
            let side = |d: usize| corner >> d & 1;
            let place = [&sides[0][side(0)], &sides[1][side(1)], &sides[2][side(2)]];
            let colors = self.element(spots, level, texels, place);
            for (sum, values) in sums.iter_mut().zip(&colors).take(channels) {
                for lane in 0..LANES {
                    let weight = weights[0][side(0)][lane]
                        * weights[1][side(1)][lane]
                        * weights[2][side(2)][lane];
                    let part = weight * f64::from(f32::from_bits(values[lane]));
                    // What does not count may be infinite.
                    sum[lane] += if weight == 0.0 { 0.0 } else { part };
                }
            }
        }
        let mut colors = absent(self.texture);
        for (values, sum) in colors.iter_mut().zip(&sums).take(channels) {
            *values = sum.map(|sum| (sum as f32).to_bits());
        }
        colors
    }

    /// One component of the four elements around a place, counter-clockwise from the lower left.
    fn gather(
        &self,
        spots: &Spots,
        level: &Level,
        texels: &mut impl Texels,
        places: &[Numbers; 3],
        component: usize,
    ) -> Colors {
        let mut results = [[0; LANES]; 4];
        for (result, (right, down)) in results.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
            let index = |d: usize, step: i32| -> Indices {
                places[d].map(|place| to_index((place - 0.5).floor()) + step)
            };
            let index = [index(0, right), index(1, down), [0; LANES]];
            *result = self.elements(spots, level, texels, index)[component];
        }
        results
    }

    /// Indices inside of a dimension of size `n`, and whether they name an element or the border.
    #[inline(always)]
    fn resolve(&self, index: &Indices, n: u32, d: usize) -> (Words, [bool; LANES]) {
        let n = n as i32;
        let is_linear_memory = self.image().resource == Resource::Linear;
        let mode = match self.sampler.address[d] {
            _ if is_linear_memory => AddressMode::Border,
            AddressMode::Wrap | AddressMode::Mirror if !self.sampler.normalized => {
                AddressMode::Clamp
            }
            mode => mode,
        };
        let inside = |index: i32| (0..n).contains(&index);
        let all = [true; LANES];
        match mode {
            AddressMode::Clamp => (index.map(|i| i.max(0).min(n - 1) as u32), all),
            AddressMode::Border => (
                index.map(|i| if inside(i) { i as u32 } else { 0 }),
                index.map(inside),
            ),
            AddressMode::Wrap => (index.map(|i| remainder(i, n)), all),
            AddressMode::Mirror => (
                index.map(|i| {
                    let i = remainder(i, 2 * n) as i32;
                    (if i < n { i } else { 2 * n - 1 - i }) as u32
                }),
                all,
            ),
        }
    }

    /// An element for each lane, or the border color.
    #[inline(always)]
    fn element(
        &self,
        spots: &Spots,
        level: &Level,
        texels: &mut impl Texels,
        [x, y, z]: [&(Words, [bool; LANES]); 3],
    ) -> Colors {
        let bytes = u64::from(self.image().element_bytes());
        let pitch = u64::from(level.pitch as u32);
        let [_, height, depth] = level.size;
        let mut at = [0; LANES];
        let mut is_inside = [true; LANES];
        for lane in 0..LANES {
            let row = (spots.layers[lane]
                .wrapping_mul(depth)
                .wrapping_add(z.0[lane]))
            .wrapping_mul(height)
            .wrapping_add(y.0[lane]);
            at[lane] = u64::from(row) * pitch + u64::from(x.0[lane]) * bytes;
            is_inside[lane] = x.1[lane] & y.1[lane] & z.1[lane];
        }
        let mut colors = absent(self.texture);
        load(self.texture, texels, &at, &mut colors);
        if is_inside != [true; LANES] {
            self.put_border(&is_inside, &mut colors);
        }
        if let Some(reference) = &spots.depth {
            self.compare(reference, &mut colors);
        }
        colors
    }

    fn put_border(&self, is_inside: &[bool; LANES], colors: &mut Colors) {
        let channels = self.image().channels as usize;
        let is_linear_memory = self.image().resource == Resource::Linear;
        for (values, &border) in colors.iter_mut().zip(&self.sampler.border).take(channels) {
            let border = match self.texture.is_float() {
                _ if is_linear_memory => 0,
                true => border.to_bits(),
                false if self.image().dtype.is_signed() => border as i32 as u32,
                false => border as u32,
            };
            for (value, &is_inside) in values.iter_mut().zip(is_inside) {
                *value = if is_inside { *value } else { border };
            }
        }
    }

    /// Comparison with a reference value: 1 where it is not greater than the element, else 0.
    fn compare(&self, reference: &Words, colors: &mut Colors) {
        let channels = self.image().channels as usize;
        for values in colors.iter_mut().take(channels) {
            for (value, &reference) in values.iter_mut().zip(reference) {
                let passes = f32::from_bits(reference) <= f32::from_bits(*value);
                *value = f32::from(u8::from(passes)).to_bits();
            }
        }
    }
}

/// The sum of two floats by weights `1 - weight` and `weight`.
fn mix(x: u32, y: u32, weight: f64) -> u32 {
    let [x, y] = [x, y].map(|bits| f64::from(f32::from_bits(bits)));
    (((1.0 - weight) * x + weight * y) as f32).to_bits()
}

/// Holds a place within the range of indices; what is no number counts as far below.
#[inline(always)]
pub(super) fn hold(place: f64) -> f64 {
    let place = if place > -FAR { place } else { -FAR };
    if place < FAR { place } else { FAR }
}

/// An integral number as an index, held within range.
#[inline(always)]
pub(super) fn to_index(place: f64) -> i32 {
    // The sum has the integer in its lowest bits: 1.5 * 2^52 leaves room for a sign.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    (hold(place) + SHIFT).to_bits() as i32
}

/// The remainder, never negative. The quotient of numbers this small, rounded, is below an integer
/// only if the exact one is.
#[inline(always)]
fn remainder(index: i32, n: i32) -> u32 {
    let (index, n) = (f64::from(index), f64::from(n));
    to_index(index - n * (index / n).floor()) as u32
}
