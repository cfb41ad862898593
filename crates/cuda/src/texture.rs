//! Texture and surface objects.
#![expect(unsafe_code, reason = "exports functions under C's names")]

use ptxjit_driver::memory::texture;
use ptxjit_driver::types::{
    CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUsurfObject, CUtexObject,
};

use crate::call::{In, Out, exports};

exports! {
    /// Makes a texture object.
    fn cuTexObjectCreate(
        out: Out<CUtexObject>, resource: In<CUDA_RESOURCE_DESC>, desc: In<CUDA_TEXTURE_DESC>,
        view: In<CUDA_RESOURCE_VIEW_DESC>,
    ) {
        let (resource, desc) = (resource.get()?, desc.get()?);
        let view = match view.address() {
            0 => None,
            _ => Some(view.get()?),
        };
        out.fill(|| texture::create(&resource, &desc, view))
    }

    /// Ends a texture object.
    fn cuTexObjectDestroy(object: CUtexObject) {
        texture::destroy(object)
    }

    /// What a texture object reads.
    fn cuTexObjectGetResourceDesc(out: Out<CUDA_RESOURCE_DESC>, object: CUtexObject) {
        out.fill(|| texture::resource(object))
    }

    /// How a texture object reads.
    fn cuTexObjectGetTextureDesc(out: Out<CUDA_TEXTURE_DESC>, object: CUtexObject) {
        out.fill(|| texture::description(object))
    }

    /// How a texture object sees its memory.
    fn cuTexObjectGetResourceViewDesc(out: Out<CUDA_RESOURCE_VIEW_DESC>, object: CUtexObject) {
        out.fill(|| texture::view(object))
    }

    /// Makes a surface object.
    fn cuSurfObjectCreate(out: Out<CUsurfObject>, resource: In<CUDA_RESOURCE_DESC>) {
        let resource = resource.get()?;
        out.fill(|| texture::create_surface(&resource))
    }

    /// Ends a surface object.
    fn cuSurfObjectDestroy(object: CUsurfObject) {
        texture::destroy_surface(object)
    }

    /// What a surface object writes.
    fn cuSurfObjectGetResourceDesc(out: Out<CUDA_RESOURCE_DESC>, object: CUsurfObject) {
        out.fill(|| texture::surface_resource(object))
    }
}
