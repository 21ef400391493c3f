"""Runs one program of ../shared/cases in a process of its own and compares its answer.

As a script it is a server: a line of JSON [program, mode] comes in, the outcome goes out. It has
loaded kael and nothing else, so that its forks are cheap.
"""
import json
import math
import os
import signal
import subprocess
import sys
import traceback

LIMIT_S = 60


def run(program, mode):
    """('ok', answer), ('raised', class names, message), or ('died', what)."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            signal.alarm(LIMIT_S)
            with os.fdopen(write_end, 'w') as pipe:
                json.dump(_execute(program, mode), pipe)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if not text:
        return ['died', f'wait status {status}']
    return json.loads(text)


class Server:
    """Runs programs, each in a fork of one small process."""

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def run(self, program, mode):
        """As run()."""
        self._process.stdin.write(json.dumps([program, mode]) + '\n')
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve():
    import kael  # noqa: F401: loaded once, before the forks
    for line in sys.stdin:
        outcome = run(*json.loads(line))
        sys.stdout.write(json.dumps(outcome) + '\n')
        sys.stdout.flush()


def _execute(program, mode):
    try:
        import kael
        kael.set_jit(mode)
        names = {'k': kael}
        exec(program['repro'], names)
        return ['ok', _plain(names['out'])]
    except BaseException as error:
        classes = [c.__name__ for c in type(error).__mro__]
        return ['raised', classes, str(error), traceback.format_exc()]


def _plain(value):
    """Nested lists; what JSON cannot say as the strings that the cases use."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'nan' if math.isnan(value) else 'inf' if value > 0 else '-inf'
    return value


def difference(program, outcome):
    """None where the outcome is the one expected, else what differs."""
    expect = program['expect']
    if isinstance(expect, dict):
        if outcome[0] != 'raised':
            return f'expected {expect["raises"]}, got {outcome}'
        if not set(expect['raises'].split('|')) & set(outcome[1]):
            return f'expected {expect["raises"]}, got {outcome[1][0]}: {outcome[2]}'
        missing = [text for text in expect.get('mentions', []) if text not in outcome[2]]
        return f'the message lacks {missing}: {outcome[2]}' if missing else None
    if outcome[0] != 'ok':
        return outcome[-1]
    return _compare(expect, outcome[1], program.get('tol', 1e-5), 'out')


def _compare(want, got, tol, where):
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return f'{where}: expected {want}, got {got}'
        for i, (a, b) in enumerate(zip(want, got)):
            found = _compare(a, b, tol, f'{where}[{i}]')
            if found:
                return found
        return None
    same = want == got and isinstance(want, bool) == isinstance(got, bool)
    if not same and isinstance(want, float) and isinstance(got, (int, float)) \
            and not isinstance(got, bool):
        same = abs(want - got) <= tol * abs(want) + 1e-7
    return None if same else f'{where}: expected {want!r}, got {got!r}'


if __name__ == '__main__':
    _serve()
