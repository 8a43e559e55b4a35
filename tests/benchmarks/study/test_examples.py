"""The examples in the docstrings of the study run."""

from __future__ import annotations

import doctest

import pytest

from benchmarks.paper.study import coupled, paper, transformer


@pytest.mark.slow
@pytest.mark.parametrize("module", [coupled, paper, transformer], ids=lambda m: m.__name__)
def test_examples_run(module):
    failed, attempted = doctest.testmod(module)
    assert attempted
    assert not failed
