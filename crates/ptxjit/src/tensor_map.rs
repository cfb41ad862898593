//! Tensor maps for `cp.async.bulk.tensor`.

use ptxjit_device::tensor::{
    Access, BadField, Fill, Interleave, L2Promotion, MAP_BYTES, MAX_RANK, MapBytes, Pixels,
    Swizzle, TensorMap as Fields,
};

pub use ptxjit_device::tensor::ElementType;

use crate::{Arg, Error, UsageRule};

/// A tensor map: 128 opaque bytes that a kernel takes by value, as a `.param .align 64 .b8 [128]`,
/// or finds in memory.
///
/// It names memory by its address and does not keep it alive: a launch that uses it must be told of
/// the buffer ([`Launch::uses`](crate::Launch::uses)), unless the buffer is an argument, too.
///
/// ```
/// use ptxjit::{Device, ElementType, TensorMap};
///
/// let device = Device::new()?;
/// let image = device.alloc_from(&[0f32; 96 * 48])?;
/// let map = TensorMap::tiled(image.address(), ElementType::F32, &[96, 48], &[4 * 96], &[32, 8])
///     .swizzle("128B")
///     .encode()?;
/// assert_eq!(map.bytes().len(), 128);
///
/// let wrong = TensorMap::tiled(image.address(), ElementType::F32, &[96, 48], &[100], &[32, 8]);
/// let err = wrong.encode().unwrap_err().to_string();
/// assert!(err.contains("`strides_bytes[0]` is 100"), "{err}");
/// # Ok::<(), ptxjit::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    bytes: MapBytes,
}

impl TensorMap {
    /// Size in bytes.
    pub const SIZE: usize = MAP_BYTES;

    /// A map of boxes. All lists begin with the innermost dimension; `strides` are the bytes from
    /// one element to the next in dimension 1 and further ones.
    pub fn tiled(
        address: u64,
        dtype: ElementType,
        dims: &[u64],
        strides: &[u64],
        box_dims: &[u32],
    ) -> TensorMapBuilder {
        let mut builder = TensorMapBuilder::new(address, dtype, dims, strides);
        let box_dims = builder.list("box", box_dims, dims.len());
        builder.fields.access = Access::Tiled { box_dims };
        builder
    }

    /// A map of im2col columns, of a tensor with the dimensions channel, width (height, depth) and
    /// image. The corners say where filters begin, by width, height and depth: `lower` from 0,
    /// `upper` from the last pixel.
    #[expect(clippy::too_many_arguments, reason = "the fields of such a map")]
    pub fn im2col(
        address: u64,
        dtype: ElementType,
        dims: &[u64],
        strides: &[u64],
        lower: &[i32],
        upper: &[i32],
        channels_per_pixel: u32,
        pixels_per_column: u32,
    ) -> TensorMapBuilder {
        let mut builder = TensorMapBuilder::new(address, dtype, dims, strides);
        let n_spatial = dims.len().saturating_sub(2);
        builder.fields.access = Access::Im2col(Pixels {
            lower: builder.list("lower", lower, n_spatial),
            upper: builder.list("upper", upper, n_spatial),
            channels: channels_per_pixel,
            per_column: pixels_per_column,
        });
        builder
    }

    /// A map for `.im2col::w` and `.im2col::w::128`: columns along the width alone.
    #[expect(clippy::too_many_arguments, reason = "the fields of such a map")]
    pub fn im2col_wide(
        address: u64,
        dtype: ElementType,
        dims: &[u64],
        strides: &[u64],
        lower: i32,
        upper: i32,
        channels_per_pixel: u32,
        pixels_per_column: u32,
    ) -> TensorMapBuilder {
        let mut builder = TensorMapBuilder::new(address, dtype, dims, strides);
        builder.fields.access = Access::Im2colWide(Pixels {
            lower: [lower, 0, 0],
            upper: [upper, 0, 0],
            channels: channels_per_pixel,
            per_column: pixels_per_column,
        });
        builder
    }

    /// The map of such bytes, if they are a complete one.
    pub fn from_bytes(bytes: &[u8; MAP_BYTES]) -> Option<TensorMap> {
        let fields = Fields::decode(bytes)?;
        fields.check().ok().map(|()| TensorMap { bytes: *bytes })
    }

    /// The same map of a tensor elsewhere.
    pub fn at(&self, address: u64) -> Result<TensorMap, Error> {
        let mut fields = Fields::decode(&self.bytes)
            .ok_or_else(|| Error::usage(UsageRule::Description, "these bytes are no tensor map"))?;
        fields.address = address;
        encode(&fields)
    }

    /// What kernels see.
    pub fn bytes(&self) -> &[u8; MAP_BYTES] {
        &self.bytes
    }
}

impl From<&TensorMap> for Arg {
    fn from(map: &TensorMap) -> Arg {
        Arg::from_bytes(map.bytes)
    }
}

/// A tensor map under construction. Only [`TensorMapBuilder::encode`] says whether its fields are
/// right.
#[derive(Clone, Debug)]
pub struct TensorMapBuilder {
    fields: Fields,
    /// The first list of a wrong length, or name that means nothing.
    bad: Option<BadField>,
}

impl TensorMapBuilder {
    fn new(address: u64, dtype: ElementType, dims: &[u64], strides: &[u64]) -> TensorMapBuilder {
        let fields = Fields {
            address,
            rank: u32::try_from(dims.len()).unwrap_or(u32::MAX),
            dtype,
            dims: [0; MAX_RANK],
            strides: [0; MAX_RANK - 1],
            element_strides: [1; MAX_RANK],
            interleave: Interleave::None,
            swizzle: Swizzle::NONE,
            l2_promotion: L2Promotion::None,
            fill: Fill::Zero,
            access: Access::Tiled {
                box_dims: [0; MAX_RANK],
            },
        };
        let mut builder = TensorMapBuilder { fields, bad: None };
        if !(1..=MAX_RANK).contains(&dims.len()) {
            let why = format!(
                "has {} dimensions: a tensor has 1 to {MAX_RANK}",
                dims.len()
            );
            builder.refuse("dims", why);
        }
        let n_strides = dims.len().saturating_sub(1);
        builder.fields.dims = builder.list("dims", dims, dims.len());
        builder.fields.strides = builder.list("strides_bytes", strides, n_strides);
        builder
    }

    /// Step from one copied element to the next in each dimension, in elements; 1 if this is not
    /// called.
    pub fn element_strides(mut self, element_strides: &[u32]) -> TensorMapBuilder {
        let n_dims = self.fields.rank as usize;
        self.fields.element_strides = self.list("element_strides", element_strides, n_dims);
        self
    }

    /// How channels are interleaved: `none`, `16B` or `32B`.
    pub fn interleave(mut self, name: &str) -> TensorMapBuilder {
        let found = self.named("interleave", name, Interleave::from_name(name));
        self.fields.interleave = found.unwrap_or(Interleave::None);
        self
    }

    /// How a box is permuted in shared memory: `none`, `32B`, `64B`, `96B`, `128B`,
    /// `128B_ATOM_32B`, `128B_ATOM_32B_FLIP_8B` or `128B_ATOM_64B`.
    pub fn swizzle(mut self, name: &str) -> TensorMapBuilder {
        let found = self.named("swizzle", name, Swizzle::from_name(name));
        self.fields.swizzle = found.unwrap_or(Swizzle::NONE);
        self
    }

    /// What a GPU fetches to its L2 cache: `none`, `64B`, `128B` or `256B`. Without effect.
    pub fn l2_promotion(mut self, name: &str) -> TensorMapBuilder {
        let found = self.named("l2_promotion", name, L2Promotion::from_name(name));
        self.fields.l2_promotion = found.unwrap_or(L2Promotion::None);
        self
    }

    /// What stands for elements outside of the tensor: `zero` (or `none`), or `nan`.
    pub fn oob_fill(mut self, name: &str) -> TensorMapBuilder {
        let fill = Fill::from_name(if name == "none" { "zero" } else { name });
        self.fields.fill = self.named("oob_fill", name, fill).unwrap_or(Fill::Zero);
        self
    }

    /// The map; the error names the field that breaks a rule.
    pub fn encode(&self) -> Result<TensorMap, Error> {
        match &self.bad {
            Some(bad) => Err(Error::usage(
                UsageRule::Description,
                format!("a tensor map's {bad}"),
            )),
            None => encode(&self.fields),
        }
    }

    fn refuse(&mut self, field: &'static str, why: String) {
        let index = None;
        self.bad.get_or_insert(BadField { field, index, why });
    }

    fn named<T>(&mut self, field: &'static str, name: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            self.refuse(field, format!("has no value `{}`", crate::escape(name)));
        }
        found
    }

    /// The elements of a list that must have `n`.
    fn list<T: Copy + Default, const N: usize>(
        &mut self,
        field: &'static str,
        values: &[T],
        n: usize,
    ) -> [T; N] {
        if values.len() != n {
            let why = format!(
                "has {} numbers: with {} dimensions it has {n}",
                values.len(),
                self.fields.rank
            );
            self.refuse(field, why);
        }
        std::array::from_fn(|idx| values.get(idx).copied().unwrap_or_default())
    }
}

fn encode(fields: &Fields) -> Result<TensorMap, Error> {
    match fields.check() {
        Ok(()) => Ok(TensorMap {
            bytes: fields.encode(),
        }),
        Err(bad) => Err(Error::usage(
            UsageRule::Description,
            format!("a tensor map's {bad}"),
        )),
    }
}
