# Sourced by tests that compare with PyTorch. Sets python to one that has it, Debian's first; to nothing where none has.
for python in /usr/bin/python3 python3; do "$python" -c 'import torch' 2>/dev/null && break || python=; done
no_torch="no python with torch (Debian: apt-get install python3-torch)"

need_torch() {
    [ -n "$python" ] || { echo "SKIPPED: $no_torch"; exit 77; }
}

# Scripts run side by side in one build folder: none of them runs make there.
need_program() { # path
    [ -x "$1" ] || { echo "FAILED: $1 is not built; make builds it"; exit 1; }
}
