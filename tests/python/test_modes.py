"""When operations run: set_jit, compile, eval, explain; threads; and the end of the interpreter."""
import subprocess
import sys
import threading

import pytest

import kael as k


@pytest.fixture(autouse=True)
def restore():
    before = k.jit_mode()
    yield
    k.set_jit(before)


def test_the_mode_is_the_processes_and_seen_by_all_threads():
    for mode in (False, True):
        k.set_jit(mode)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(k.jit_mode()))
        thread.start()
        thread.join()
        assert k.jit_mode() is mode and seen == [mode]
    with pytest.raises(ValueError):
        k.set_jit('fast')


def test_compile_turns_the_compiler_on_inside():
    k.set_jit(False)

    @k.compile
    def double(x):
        assert k.jit_mode() is True
        return x * 2
    y = double(k.ones(3))
    assert k.jit_mode() is False and y.tolist() == [2, 2, 2]
    assert double.__name__ == 'double'


def test_eval_runs_what_is_pending_once():
    k.set_jit(True)
    x = k.ones(5) + 1
    y, z = x * 2, x * 3
    before = k.stats()['runs']
    k.eval(y, [z], {'x': x})
    assert k.stats()['runs'] == before + 1
    y.tolist(), z.tolist(), x.tolist()
    assert k.stats()['runs'] == before + 1


def test_explain_computes_nothing():
    k.set_jit(True)
    x = k.ones(3) + 1
    before = k.stats()['runs']
    assert 'references: 1' in k.explain(x) and k.stats()['runs'] == before


def test_threads_get_their_own_answers():
    k.set_jit(True)
    wrong = []

    def work(seed):
        for i in range(50):
            x = k.full((100,), float(seed)) * 2 + i
            if x.sum().item() != 100 * (2 * seed + i):
                wrong.append((seed, i))
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize('end', ['', 'raise SystemExit(0)', 'k.explain(x)'])
def test_the_interpreter_ends_with_work_pending(end):
    program = f'import kael as k\nk.set_jit(True)\nx = k.ones(3) + 1\nh = k.ones(1, ' \
              f'requires_grad=True)\nh.register_hook(print)\n{end}\n'
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ''


def test_the_environment_sets_the_mode_at_import():
    import os
    for value, mode in (('0', 'False'), ('1', 'True')):
        done = subprocess.run([sys.executable, '-c', 'import kael; print(kael.jit_mode())'],
                              env={**os.environ, 'KAEL_JIT': value}, capture_output=True, text=True)
        assert done.stdout.strip() == mode, done.stderr
