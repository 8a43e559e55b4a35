"""Peers by their own code, on our files: adapters that import from copies of their repositories.

No line of theirs is here. Each peer's module names its repository and commit; get them into one
folder, which the commands take as --repositories:

    git clone https://github.com/yalavarthivk/GraFITi
    git clone https://github.com/usail-hkust/t-PatchGNN
    git clone https://github.com/kloetergensc/Physiome-ODE
    git -C GraFITi checkout 698060bb0e9385d79eaf41b7981a05390725a1e5
    git -C t-PatchGNN checkout 00c94e7bbaf21c71b03ed84ff690ae59e37129e5
    git -C Physiome-ODE checkout 4829169d44e432da40c6d2903425809d9989802a

LinODENet is taken from Physiome-ODE, as that benchmark ran it. t-PatchGNN needs `einops` too. Their
code is executed. `python -m benchmarks.peers_code.forecasts` has the tables.
"""
