//! External references of compiled code: by name, so that code can be stored and used in another
//! process.

use cranelift_codegen::ir::{self as cl, AbiParam, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use ptxjit_ir::InstData;

use super::Lower;
use crate::object::{HELPERS, KEPT, PRODUCTS};
use ptxjit_abi::mma::Products;
use ptxjit_abi::object::Helper;

impl Lower<'_, '_> {
    /// Calls a function of ours.
    pub(super) fn call_helper(
        &mut self,
        helper: Helper,
        args: &[cl::Value],
        ret: Option<cl::Type>,
    ) -> Option<cl::Value> {
        let mut sig = cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        sig.params.extend(
            args.iter()
                .map(|&arg| AbiParam::new(self.b.func.dfg.value_type(arg))),
        );
        sig.returns.extend(ret.map(AbiParam::new));
        let func_ref = self.imported(HELPERS, helper.number(), false, || sig);
        let call = self.b.ins().call(func_ref, args);
        ret.map(|_| self.b.inst_results(call)[0])
    }

    /// The address of a copy of the instruction that lives as long as the kernel.
    pub(super) fn kept_inst(&mut self, data: &InstData) -> cl::Value {
        let mut data = data.clone();
        if let InstData::Warp { args, .. } | InstData::Device { args, .. } = &mut data {
            // Operands are not stored.
            args.clear();
        }
        // Consecutive lanes ask for the same instruction.
        if self.out.kept.last() != Some(&data) {
            self.out.kept.push(data);
        }
        let number = self.out.kept.len() as u32 - 1;
        let sig = || cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        let func_ref = self.imported(KEPT, number, false, sig);
        self.b.ins().func_addr(types::I64, func_ref)
    }

    /// The address of products of matrices, which live as long as the kernel.
    pub(super) fn kept_products(&mut self, products: Products) -> cl::Value {
        self.out.products.push(products);
        let number = self.out.products.len() as u32 - 1;
        let sig = || cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        let func_ref = self.imported(PRODUCTS, number, false, sig);
        self.b.ins().func_addr(types::I64, func_ref)
    }

    /// An external function, by its number in a namespace; `near` if it lies in the same object.
    pub(super) fn imported(
        &mut self,
        namespace: u32,
        number: u32,
        near: bool,
        signature: impl FnOnce() -> cl::Signature,
    ) -> cl::FuncRef {
        if let Some(&func_ref) = self.emitted.imports.get(&(namespace, number)) {
            return func_ref;
        }
        let name = cl::UserExternalName::new(namespace, number);
        let user = self.b.func.declare_imported_user_function(name);
        let signature = self.b.import_signature(signature());
        let func_ref = self.b.import_function(cl::ExtFuncData {
            name: cl::ExternalName::User(user),
            signature,
            colocated: near,
            patchable: false,
        });
        self.emitted.imports.insert((namespace, number), func_ref);
        func_ref
    }
}
