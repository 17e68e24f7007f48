"""Reads the SASS of kernels: registers, branches, accesses, and how many loads of global memory are
issued before an instruction waits for one of them. No GPU is needed, but NVRTC and nvdisasm are.

    kas-gpu show kernels/involution.json --net resnet18 --source cuda > involution.cu
    python3 bench/sass.py involution.cu
    python3 bench/sass.py --dtype 1 --only norm_,global_pool        the hand-written kernels

A loop's end counts as a wait, and other branches do not: loads stay under way across them.
NVRTC=... and NVDISASM=... say where these are.
"""
import argparse, ctypes, os, pathlib, re, subprocess, sys, tempfile

KERNELS = pathlib.Path(__file__).parent.parent / "src/cuda/kernels"
OPTIONS = ["--std=c++17", "--fmad=true", "--disable-warnings"]  # those of compile_nvrtc.c


def builtin_text(dtype):
    files = ["prelude.h", "wide.h", "row.h", "args.h", "activation.h", "teams.h"]
    files += sorted(path.name for path in KERNELS.glob("*.cu"))
    text = "".join((KERNELS / name).read_text() for name in files)
    return f"#define KAS_DTYPE {dtype}\n" + re.sub(r'#include "[^"]*"\n', "", text)


def cubin_of(text, arch):
    nvrtc = ctypes.CDLL(os.environ.get("NVRTC", "/usr/local/cuda/lib/libnvrtc.so"))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [option.encode() for option in OPTIONS + ["--gpu-architecture=" + arch]]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
    if nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, image)
    return image.raw


def disassemble(image):
    """Yields (kernel, lines)."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        out = subprocess.run([os.environ.get("NVDISASM", "nvdisasm"), "-c", file.name], text=True,
                             capture_output=True, check=True).stdout
    for part in re.split(r"\n\.text\.", out)[1:]:
        name, _, body = part.partition(":")
        yield name, body.split("\n\t.section")[0].splitlines()


def registers(text):
    found = re.findall(r"\bR(\d+)(\.64)?", text)
    return {int(r) for r, _ in found} | {int(r) + 1 for r, wide in found if wide}


def read(lines):
    label, code = {}, []
    for line in lines:
        if found := re.match(r"\s*(\.L_\S+):", line):
            label[found[1]] = len(code)
        if found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\S+)\s*(.*?)\s*;", line):
            code.append(found.groups())
    batch, waiting, used, count = [], set(), set(), {"LDG": 0, "STG": 0, "BRA": 0, "16B": 0}

    def wait():
        if waiting:
            batch.append(loads)
        waiting.clear()

    loads = 0
    for at, (op, rest) in enumerate(code):
        to, _, sources = rest.partition(",")
        used |= registers(rest)
        reads = registers(rest if op.startswith(("ST", "RED", "BAR")) else sources)
        target = re.search(r"\((\.L_\S+)\)", rest) if op.startswith(("BRA", "CALL")) else None
        back = target is not None and label.get(target[1], 0) <= at
        if back or reads & waiting:
            wait()
        if op.startswith("LDG"):
            loads = loads + 1 if waiting else 1
            size = {"128": 4, "64": 2}.get(op.split(".")[-1], 1)
            if "128" in op:
                size = 4
            first = int(re.match(r"R(\d+)", to)[1]) if re.match(r"R\d", to) else 0
            waiting |= set(range(first, first + size))
        for kind in ("LDG", "STG"):
            count[kind] += op.startswith(kind)
        count["16B"] += op.startswith(("LDG", "STG")) and "128" in op
        count["BRA"] += op.startswith(("BRA", "CALL")) and not (target and label.get(target[1]) == at)
    wait()
    return max(used, default=-1) + 1, len(code), count, batch


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="*", help="a CUDA text with its prelude")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--dtype", default="0", help="hand-written kernels: KAS_DTYPE")
    parser.add_argument("--only", default="", help="parts of the names of kernels, with commas")
    options = parser.parse_args()
    print(f"{'kernel':44} regs instr  bran loads store  16B  loads before each wait")
    for path in options.text or [None]:
        text = pathlib.Path(path).read_text() if path else builtin_text(options.dtype)
        for name, lines in sorted(disassemble(cubin_of(text, options.arch))):
            if any(part in name for part in options.only.split(",")):
                regs, size, count, batch = read(lines)
                label = f"{pathlib.Path(path).stem + ' ' if path else ''}{name}"
                print(f"{label:44} {regs:4} {size:5} {count['BRA']:5} {count['LDG']:5} "
                      f"{count['STG']:5} {count['16B']:4}  {' '.join(map(str, batch))}")


if __name__ == "__main__":
    main()
