"""Kernels in ONNX Runtime and in TVM, for inference on the CPU (kernel_torch.py).

Both get the PyTorch module and an input, and have `results` and `seconds(runs)` like PyTorch's side.  What is not installed raises
ImportError when it is asked for.
"""
import os
import tempfile
import time
import warnings

import torch

OPSET = 20


class Runtime:
    """`run` makes one inference; seconds counts `runs` of them."""

    def seconds(self, runs):
        start = time.perf_counter()
        for _ in range(runs):
            self.run()
        return time.perf_counter() - start


class Onnx(Runtime):
    def __init__(self, module, x, threads):
        import onnxruntime

        self.x = x.contiguous()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = os.path.join(folder, "kernel.onnx")
            torch.onnx.export(module, (self.x,), path, opset_version=OPSET, dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        y = torch.empty_like(module(self.x), memory_format=torch.contiguous_format)
        self.binding = self.session.io_binding()
        for bind, name, tensor in ((self.binding.bind_input, "x", self.x), (self.binding.bind_output, "y", y)):
            bind(name, "cpu", 0, "float32", list(tensor.shape), tensor.data_ptr())
        self.results = {"y": y}
        self.run()

    def run(self):
        self.session.run_with_iobinding(self.binding)


class Tvm(Runtime):
    """With TVM's default schedules: MetaSchedule of its wheels ends in a segmentation fault here (0.27.0.post1)."""

    def __init__(self, module, x, threads):
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import tvm
        from tvm import relax
        from tvm.relax.frontend.torch import from_exported_program

        x = x.contiguous()
        target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": threads})
        program = from_exported_program(torch.export.export(module, (x,)))
        machine = relax.VirtualMachine(tvm.compile(program, target), tvm.cpu())
        self.function, self.x = machine["main"], tvm.runtime.tensor(x.numpy())
        self.run()
        self.results = {"y": torch.from_numpy(self.y[0].numpy())}

    def run(self):
        self.y = self.function(self.x)
