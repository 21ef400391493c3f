"""The programs of ../shared/cases, each in a process of its own, in eager and in lazy mode.

needs.txt names the programs that use what kael does not have yet, with what that is. One of them
that passes is reported as XPASS: its line can go.
"""
from pathlib import Path

import pytest

import programs
from conftest import CASES, load_programs

NEEDS = dict(line.split(maxsplit=1) for line in
             (Path(__file__).parent / 'needs.txt').read_text().splitlines()
             if line.strip() and not line.startswith('#'))


def cases():
    for name in ('programs.jsonl', 'random.jsonl'):
        for program in load_programs(name) or ():
            missing = NEEDS.get(program['id'])
            marks = [pytest.mark.xfail(reason='needs ' + missing, strict=False)] if missing else []
            yield pytest.param(program, id=program['id'], marks=marks)


@pytest.fixture(scope='module')
def server():
    running = programs.Server()
    yield running
    running.close()


@pytest.mark.skipif(not CASES.exists(), reason=f'the folder of cases is not there: {CASES}')
@pytest.mark.parametrize('program', list(cases()))
@pytest.mark.parametrize('jit', [False, True], ids=['eager', 'lazy'])
def test_the_program_gives_its_answer(program, jit, server):
    difference = programs.difference(program, server.run(program, jit))
    assert difference is None, f'{program["fault"] if "fault" in program else ""}\n{difference}'


@pytest.mark.skipif(not CASES.exists(), reason=f'the folder of cases is not there: {CASES}')
def test_the_list_of_needs_names_programs_that_exist():
    known = {p['id'] for name in ('programs.jsonl', 'random.jsonl') for p in load_programs(name)}
    assert not set(NEEDS) - known
