"""Runs check() of several exported folders in one process: importing torch takes longer than all the checks."""
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
good = bool(sys.argv[1:])
for folder in map(os.path.abspath, sys.argv[1:]):
    sys.modules.pop("kernel", None)
    spec = importlib.util.spec_from_file_location("network", os.path.join(folder, "network.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(folder)
    print(os.path.basename(folder), end=": ")
    good = module.check() and good
sys.exit(0 if good else 1)
