"""The tables of the PolyODE paper, made again: one module with a command for each.

    python -m benchmarks.paper.classification   the synthetic sets, three rates, two protocols
    python -m benchmarks.paper.mimic --path ... MIMIC-III, from your own file
    python -m benchmarks.paper.physionet --path ... the same on open data
    python -m benchmarks.paper.solvers          standard solvers against the exact memory
    python -m benchmarks.paper.hyperparameters  the paper's choices beside the defaults

`rows` says what is compared, `cells` and `mimic_cells` how one number is made, `store` keeps what
has been computed, `runner` computes what is missing, `tables` and `beside` write it down. `study`
has PolyODE with the paper's own choices.
"""
