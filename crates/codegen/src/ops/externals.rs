//! External references of compiled code: by name, so that code can be stored and used in another
//! process.

use crate::object::{HELPERS, KEPT, PRODUCTS};
use cranelift_codegen::ir::{self as cl, AbiParam, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use ptxjit_abi::mma::Products;
use ptxjit_abi::object::Helper;
use ptxjit_ir::{InstData, Type};

use super::{Emitter, int_type};

impl Emitter<'_> {
    /// Calls a function of ours.
    pub(crate) fn call_helper(
        &mut self,
        helper: Helper,
        args: &[cl::Value],
        ret: Option<cl::Type>,
    ) -> Option<cl::Value> {
        let mut sig = cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        sig.params.extend(
            args.iter()
                .map(|&arg| AbiParam::new(self.func.dfg.value_type(arg))),
        );
        sig.returns.extend(ret.map(AbiParam::new));
        let func_ref = self.imported(HELPERS, helper.number(), false, || sig);
        let call = self.ins().call(func_ref, args);
        ret.map(|_| self.inst_results(call)[0])
    }

    /// The address of a copy of the instruction that lives as long as the kernel.
    pub(crate) fn kept_inst(&mut self, data: &InstData) -> cl::Value {
        let mut data = data.clone();
        if let InstData::Warp { args, .. } | InstData::Device { args, .. } = &mut data {
            // Operands are not stored.
            args.clear();
        }
        // Consecutive lanes ask for the same instruction.
        if self.external.kept.last() != Some(&data) {
            self.external.kept.push(data);
        }
        let number = self.external.kept.len() as u32 - 1;
        self.address_of_kept(KEPT, number)
    }

    /// The address of products of matrices, which live as long as the kernel.
    pub(crate) fn kept_products(&mut self, products: Products) -> cl::Value {
        self.external.products.push(products);
        let number = self.external.products.len() as u32 - 1;
        self.address_of_kept(PRODUCTS, number)
    }

    fn address_of_kept(&mut self, namespace: u32, number: u32) -> cl::Value {
        let sig = || cl::Signature::new(CallConv::triple_default(&target_lexicon::Triple::host()));
        let func_ref = self.imported(namespace, number, false, sig);
        self.ins().func_addr(types::I64, func_ref)
    }

    /// An external function, by its number in a namespace; `near` if it lies in the same object.
    pub(crate) fn imported(
        &mut self,
        namespace: u32,
        number: u32,
        near: bool,
        signature: impl FnOnce() -> cl::Signature,
    ) -> cl::FuncRef {
        if let Some(&func_ref) = self.imports.get(&(namespace, number)) {
            return func_ref;
        }
        let name = cl::UserExternalName::new(namespace, number);
        let user = self.func.declare_imported_user_function(name);
        let signature = self.import_signature(signature());
        let func_ref = self.import_function(cl::ExtFuncData {
            name: cl::ExternalName::User(user),
            signature,
            colocated: near,
            patchable: false,
        });
        self.imports.insert((namespace, number), func_ref);
        func_ref
    }

    /// Evaluates an instruction by a call to `ptxjit_ir::eval`.
    pub(crate) fn evaluated(&mut self, data: &InstData, args: &[cl::Value]) -> cl::Value {
        let mut call_args = vec![self.kept_inst(data)];
        for idx in 0..4 {
            let arg = match args.get(idx) {
                Some(&arg) => self.to_i64(arg),
                None => self.ins().iconst(types::I64, 0),
            };
            call_args.push(arg);
        }
        let raw = self
            .call_helper(Helper::Eval, &call_args, Some(types::I64))
            .expect("eval returns a value");
        let ty = data.result_type();
        if ty == Type::B64 {
            raw
        } else {
            self.ins().ireduce(int_type(ty), raw)
        }
    }
}
