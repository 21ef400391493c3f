"""What the tests of the Python package share."""
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / 'shared' / 'cases'
sys.path.insert(0, str(Path(__file__).parent))


def load_programs(name):
    """The programs of one file, or None where the folder is not there."""
    path = CASES / name
    if not path.exists():
        return None
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


@pytest.fixture(params=[False, True], ids=['eager', 'lazy'])
def mode(request):
    """Each test that asks for it runs in both modes."""
    import kael
    before = kael.jit_mode()
    kael.set_jit(request.param)
    yield request.param
    kael.set_jit(before)
