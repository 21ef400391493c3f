#!/usr/bin/env python3
"""Writes the Python bindings of the operators, ops_table.h and ops_table.c, and the type stubs.

usage: generate.py OPS_DEF INCLUDE_DIR STUBS_IN OUT_H OUT_C OUT_STUBS

The arguments' names and defaults, and the documentation, come from frontend/ops.def; the types from
the prototypes in the public headers. An operator whose prototype has a form that is not known here
is left out, and named in a comment at the end of ops_table.c. STUBS_IN has what is written by hand in
C or Python; the operators are put in at its two marks.
"""
import re
import sys
from pathlib import Path

# Written by hand in the C sources, or not made for Python's users.
BY_HAND = {'to_dtype', 'clone', 'contiguous', 'copy', 'slice', 'unbind', 'split', 'view',
           'as_strided', 'chunk', 'where', 'max', 'min'}
# Operators with prototypes but without a line in ops.def.
MORE = {'narrow': ('self, dim, start, length', 'A range of a dim, as a view.'),
        'flatten': ('self, start_dim=0, end_dim=-1', 'The dims of a range as one dim.')}
# Functions of kael.nn.functional only: no methods.
FUNCTIONAL = {'linear', 'nll_loss', 'cross_entropy', 'gelu', 'silu'}
# Several positional integers may stand for the sequence: permute(1, 0).
SPREAD = {'view', 'reshape', 'expand', 'permute', 'flip', 'repeat', 'tile'}
# dtype= casts the operand first.
CASTS = {'sum', 'mean', 'softmax', 'log_softmax', 'prod', 'cumsum', 'cumprod'}
# alpha= multiplies the second operand first.
ALPHA = {'add', 'sub'}
ALIASES = {'mul': ['multiply'], 'sub': ['subtract'], 'div': ['divide', 'true_divide'],
           'neg': ['negative'], 'abs': ['absolute'], 'gt': ['greater'], 'lt': ['less'],
           'ge': ['greater_equal'], 'le': ['less_equal'], 'ne': ['not_equal'],
           'transpose': ['swapaxes', 'swapdims'], 'clamp': ['clip'], 'atan2': ['arctan2'], 'trunc': ['fix'], 'cat': ['concat', 'concatenate']}
# The operators that operators.c uses: each has a table, be it empty.
SYMBOLS = ['fmod', 'add', 'sub', 'mul', 'div', 'floor_divide', 'remainder', 'pow', 'bitwise_and',
           'bitwise_or', 'bitwise_xor', 'bitwise_left_shift', 'bitwise_right_shift', 'logical_and',
           'logical_or', 'logical_xor', 'lt', 'le', 'eq', 'ne', 'gt', 'ge']


# --- Reading --------------------------------------------------------------------------------------

class Op:
    def __init__(self, name, form, args, inplace, doc):
        self.name, self.form, self.inplace, self.doc = name, form, inplace, doc
        self.args = []  # (name, default or None)
        for arg in filter(None, (a.strip() for a in args.split(','))):
            head, _, default = arg.partition('=')
            self.args.append((head.split(':')[0].strip(), default.strip() or None))


def read_ops(path):
    text = re.sub(r'/\*.*?\*/', '', path.read_text(), flags=re.S)
    pattern = re.compile(r'KL_FN\(\s*\w+,\s*(\w+),\s*(\w+),\s*\w+,\s*\w+,\s*"([^"]*)",\s*(\w+),'
                         r'\s*\w+,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')
    ops = []
    for name, form, args, inplace, doc in pattern.findall(text):
        doc = ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', doc))
        ops.append(Op(name, form, args, inplace == 'YES', doc))
    return ops


def read_prototypes(folder):
    """name -> (return type, [(type, name)])"""
    found = {}
    for header in sorted(folder.glob('*.h')):
        text = re.sub(r'/\*.*?\*/', '', header.read_text(), flags=re.S)
        for returns, name, params in re.findall(
                r'KAEL_API\s+([\w\s]+?[\s*]+)(kael_\w+)\(([^;{]*)\);', text):
            parts = []
            for param in ' '.join(params.split()).split(', '):
                match = re.match(r'(.*?)(\w+)$', param)
                if match and param != 'void' and '(' not in params:
                    parts.append((match.group(1).strip(), match.group(2)))
            found[name] = (returns.strip(), parts)
    return found


# --- Arguments ------------------------------------------------------------------------------------

class Unknown(Exception):
    pass


class Param:
    """A parameter of the Python function: kind, and the C arguments that it becomes."""

    def __init__(self, name, kind, pieces):
        self.name, self.kind, self.pieces = name, kind, pieces
        self.default, self.required, self.keyword_only = None, True, False


SIMPLE = {'kael_scalar': ('KPY_NUMBER', '{a}.number'), 'int64_t': ('KPY_INT', '{a}.integer'),
          'int': ('KPY_INT', '(int){a}.integer'), 'bool': ('KPY_BOOL', '{a}.flag'),
          'double': ('KPY_FLOAT', '{a}.real'), 'kael_dtype': ('KPY_DTYPE', '{a}.dtype'),
          'kael_reduction': ('KPY_REDUCTION', '(kael_reduction){a}.integer')}


TYPES = {'KPY_TENSOR': 'Tensor', 'KPY_TENSOR_OPT': 'Tensor', 'KPY_OTHER': 'Union[Tensor, Number]',
         'KPY_NUMBER': 'Number', 'KPY_NUMBER_OPT': 'Number', 'KPY_INT': 'int', 'KPY_FLOAT': 'float',
         'KPY_BOOL': 'bool', 'KPY_DTYPE': 'dtype', 'KPY_INTS': 'Union[int, Sequence[int]]',
         'KPY_SIZES': 'Union[int, Sequence[int]]', 'KPY_TENSORS': 'Sequence[Tensor]',
         'KPY_REDUCTION': 'str', 'KPY_OBJECT': 'Union[Tensor, Number]'}


KEYWORD_ONLY = {'correction'}


def params_of(op_name, c_params):
    """The Python parameters, and the names of the out parameters."""
    params, outs, i = [], [], 0
    while i < len(c_params):
        ctype, name = c_params[i]
        following = c_params[i + 1] if i + 1 < len(c_params) else (None, None)
        if ctype == 'int' and following[0] == 'const int64_t *':
            kind = 'KPY_SIZES' if op_name in SPREAD else 'KPY_INTS'
            dims = following[1]
            params.append(Param(dims, kind, ['{a}.n', '{a}.ints']))
            i += 1
        elif ctype == 'kael_tensor *const *' and following[0] == 'int':
            params.append(Param(name, 'KPY_TENSORS', ['{a}.tensors', '{a}.n']))
            i += 1
        elif ctype in ('kael_tensor *', 'const kael_tensor *'):
            params.append(Param(name, 'KPY_TENSOR', ['{a}.tensor']))
        elif ctype == 'const kael_scalar *':
            params.append(Param(name, 'KPY_NUMBER_OPT', ['({a}.given ? &{a}.number : NULL)']))
        elif ctype in SIMPLE:
            params.append(Param(name, SIMPLE[ctype][0], [SIMPLE[ctype][1]]))
        elif ctype == 'kael_tensor **':
            outs.append(name)
        else:
            raise Unknown(f'{op_name}: parameter "{ctype} {name}"')
        i += 1
    return params, outs


def apply_defaults(op, params):
    """Names and defaults by ops.def, in its order."""
    if op.args and len(op.args) != len(params):
        raise Unknown(f'{op.name}: {len(op.args)} arguments in ops.def, {len(params)} in C')
    for (name, default), param in zip(op.args, params):
        param.name = name
        param.keyword_only = name in KEYWORD_ONLY
        if default is None:
            continue
        param.required = False
        if param.kind == 'KPY_TENSOR':
            param.kind = 'KPY_TENSOR_OPT'
        if param.kind == 'KPY_REDUCTION':
            default = {"'none'": '0', "'mean'": '1', "'sum'": '2'}[default]
        param.default = {'None': '0', 'False': '0', 'True': '1'}.get(default, default)


# --- Writing --------------------------------------------------------------------------------------

def c_string(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n"\n    "') + '"'


class Writer:
    def __init__(self, prototypes):
        self.prototypes = prototypes
        self.code, self.methods, self.functions, self.unknown = [], [], [], []
        self.method_stubs, self.function_stubs = [], []

    def has(self, name):
        return 'kael_' + name in self.prototypes

    def c_params(self, name):
        return self.prototypes['kael_' + name][1]

    # One operator: its forms as a function, a method, and in place.
    def operator(self, op):
        try:
            if op.name.endswith('_tensor') and self.has(op.name[:-len('_tensor')]):
                return  # a form of the operator without the suffix
            if self.is_binary(op):
                self.binary(op)
                return
            if op.name not in BY_HAND:
                if self.has(op.name) or self.has(op.name + '_dims'):
                    self.plain(op, op.name)
            if op.inplace and self.has(op.name + '_') and op.name not in BY_HAND:
                self.plain(op, op.name + '_')
        except Unknown as error:
            self.unknown.append(str(error))

    def is_binary(self, op):
        """The second operand may be a tensor or a number."""
        return op.form == 'BINARY' or op.name == 'pow' or (
            self.has(op.name + '_scalar')
            and [t for t, _ in self.c_params(op.name)] == ['kael_tensor *', 'kael_tensor *'])

    def tensor_form(self, name):
        """The function that takes tensors where `name` takes numbers: clamp_tensor, clamp_tensor_."""
        other = name.rstrip('_') + '_tensor' + ('_' if name.endswith('_') else '')
        return other if self.has(other) else None

    def signature(self, c_name, params):
        rows = []
        for p in params:
            rows.append('    {{"{}", {}, {}, {}, {}}}'.format(
                p.name, p.kind, int(p.required), int(p.keyword_only), p.default or 0))
        self.code.append('static const kpy_param params_{}[] = {{\n{}}};'.format(
            c_name, ',\n'.join(rows)))
        self.code.append('static const kpy_signature signature_{} = {{"{}", {}, params_{}}};'.format(
            c_name, c_name, len(params), c_name))

    def stub(self, name, op, params, method, n_results):
        """The signature with types, the documentation, and no body."""
        shown, starred = [], False
        for i, p in enumerate(params):
            if p.keyword_only and not starred and p.kind != 'KPY_SIZES':
                shown.append('*')
                starred = True
            label = 'input' if p.name == 'self' and not method else p.name
            if method and i == 0:
                shown.append('self')
            elif p.kind == 'KPY_SIZES':
                shown.append(f'*{label}: Union[int, Sequence[int]]')
                starred = True
            else:
                default = '' if p.required else f' = {self.shown_default(op, p)}'
                optional = default == ' = None'
                kind = TYPES[p.kind]
                shown.append(f'{label}: {f"Optional[{kind}]" if optional else kind}{default}')
        result = 'Tensor' if n_results < 2 else f'Tuple[{", ".join(["Tensor"] * n_results)}]'
        indent = '    ' if method else ''
        return (f'{indent}def {name}({", ".join(shown)}) -> {result}:\n'
                f'{indent}    """{self.text(name, op)}"""')

    @staticmethod
    def text(name, op):
        return op.doc + (' Written to the tensor itself.' if name.endswith('_') else '')

    def trampolines(self, c_name, names, op, params, method=True, function=True, n_results=1):
        for kind, wanted, rows in (('method', method, self.methods),
                                   ('function', function, self.functions)):
            if not wanted:
                continue
            self.code.append(
                f'static PyObject *{kind}_{c_name}(PyObject *self, PyObject *const *args, '
                'Py_ssize_t n,\n    PyObject *keywords) {\n'
                + ('  (void)self;\n' if kind == 'function' else '')
                + f'  return call_{c_name}({"self" if kind == "method" else "NULL"}, args, n, '
                'keywords);\n}')
            stubs = self.method_stubs if kind == 'method' else self.function_stubs
            for name in names:
                doc = self.doc(name, op, params, kind == 'method')
                stubs.append(self.stub(name, op, params, kind == 'method', n_results))
                rows.append(f'    {{"{name}", FAST({kind}_{c_name}), {c_string(doc)}}},')

    def doc(self, c_name, op, params, method):
        """With a first line that inspect.signature and help() read."""
        shown, starred = ['$self' if method else '$module'], False
        for p in params[1:] if method else params:
            if p.keyword_only and not starred:
                shown.append('*')
            starred = starred or p.keyword_only or p.kind == 'KPY_SIZES'
            name = 'input' if p.name == 'self' else p.name
            name = '*' + name if p.kind == 'KPY_SIZES' else name
            shown.append(name if p.required else f'{name}={self.shown_default(op, p)}')
        return f'{c_name}({", ".join(shown)})\n--\n\n{self.text(c_name, op)}'

    @staticmethod
    def shown_default(op, param):
        for name, default in op.args:
            if name == param.name and default is not None:
                return default
        return 'None'

    def call(self, c_function, params, outs, indent='  '):
        pieces = []
        for i, param in enumerate(params):
            pieces += [piece.format(a=f'a[{i}]') for piece in param.pieces]
        pieces += [f'&out_{i}' for i in range(len(outs))]
        return f'kael_{c_function}({", ".join(pieces)})'

    def plain(self, op, name):
        base = name.rstrip('_')
        in_place = name.endswith('_')
        fallback = None
        if not in_place and self.has(name + '_dims'):
            c_function = name + '_dims'
        elif not in_place and self.has(name + '_dim'):
            c_function, fallback = name + '_dim', name
        else:
            c_function = name
        params, outs = params_of(base, self.c_params(c_function))
        if in_place and not self.prototypes['kael_' + c_function][0].startswith('kael_status'):
            raise Unknown(f'{name}: does not return a status')
        if op.args and len(op.args) < len(params) and fallback:
            params = params[:len(op.args)]
        other = self.tensor_form(name)
        may_be_tensor = []
        if other:
            for param, (ctype, _) in zip(params, self.c_params(other)):
                if param.kind in ('KPY_NUMBER', 'KPY_NUMBER_OPT') and ctype == 'kael_tensor *':
                    param.kind = 'KPY_OTHER'
                    may_be_tensor.append(params.index(param))
        apply_defaults(op, params)
        n_c = len(params)
        if base in CASTS and not in_place:
            dtype = Param('dtype', 'KPY_DTYPE', [])
            dtype.required, dtype.keyword_only = False, True
            params.append(dtype)
        self.signature(name, params)
        body = [f'static PyObject *call_{name}(PyObject *self, PyObject *const *args, '
                'Py_ssize_t n,\n    PyObject *keywords) {', '  kpy_call call;']
        is_status = self.prototypes['kael_' + c_function][0].startswith('kael_status')
        if is_status:
            body.append('  kael_status status;')
            body += [f'  kael_tensor *out_{i} = NULL;' for i in range(len(outs))]
        else:
            body.append('  kael_tensor *out;')
        body.append(f'  if (!kpy_parse(&call, &signature_{name}, self, args, n, keywords)) '
                    'return NULL;')
        body.append('  kpy_arg *a = call.args;')
        call = self.call(c_function, params[:n_c], outs)
        if fallback:
            less, _ = params_of(base, self.c_params(fallback))
            call = f'a[1].given ? {call}\n                : {self.call(fallback, less, [])}'
        if other:
            of_tensors = ' || '.join(f'a[{i}].tensor' for i in may_be_tensor)
            checks = ' || '.join(f'(a[{i}].given && !a[{i}].tensor)' for i in may_be_tensor)
            pieces = [f'(a[{i}].tensor ? a[{i}].tensor : KAEL_NONE)' if i in may_be_tensor
                      else p.pieces[0].format(a=f'a[{i}]') for i, p in enumerate(params)]
            call = f'{of_tensors} ? kael_{other}({", ".join(pieces)})\n                : {call}'
            body.append(f'  if (({of_tensors}) && ({checks}))')
            body.append(f'    return PyErr_Format(PyExc_TypeError, "{name}(): tensors and numbers '
                        'do not go together");')
        if base in CASTS and not in_place:
            body.append(f'  kael_tensor *cast = a[{n_c}].given ? '
                        f'kael_to_dtype(a[0].tensor, a[{n_c}].dtype) : NULL;')
            body.append(f'  if (a[{n_c}].given) a[0].tensor = cast;')
        body.append(f'  KPY_RUN({"status" if is_status else "out"} = {call});')
        if base in CASTS and not in_place:
            body.append('  kael_release(cast);')
        if outs:
            wrapped = ', '.join(f'kpy_wrap(out_{i})' for i in range(len(outs)))
            body.append('  if (!kpy_ok(status)) return kpy_finish(&call, NULL);')
            body.append(f'  return kpy_finish(&call, kpy_results({len(outs)}, '
                        f'(PyObject *[]){{{wrapped}}}));')
        elif is_status:
            body.append('  return kpy_finish(&call, kpy_returned_self(call.self, status));')
        else:
            body.append('  return kpy_finish(&call, kpy_wrap(out));')
        self.code.append('\n'.join(body) + '\n}')
        names = [name] + [alias + ('_' if in_place else '') for alias in ALIASES.get(base, [])]
        has_self = params[0].kind == 'KPY_TENSOR' and base not in FUNCTIONAL
        self.trampolines(name, names, op, params, method=has_self, n_results=len(outs) or 1)

    def binary(self, op):
        for suffix in ('', '_') if op.inplace else ('',):
            name = op.name + suffix
            second = 'exponent' if op.name == 'pow' else 'other'
            params = [Param('self', 'KPY_TENSOR', []), Param(second, 'KPY_OBJECT', [])]
            if op.name in ALPHA:
                alpha = Param('alpha', 'KPY_NUMBER_OPT', [])
                alpha.required, alpha.keyword_only = False, True
                params.append(alpha)
            if op.name == 'div':
                mode = Param('rounding_mode', 'KPY_OBJECT', [])
                mode.required, mode.keyword_only = False, True
                params.append(mode)
            act = f'kpy_binary_call{suffix}(&kpy_op_{op.name}, call.self, call.args[1].object)'
            self.signature(name, params)
            if op.name == 'div':
                act = (f'kpy_divide_call{suffix}(call.self, call.args[1].object, '
                       'call.args[2].object)')
            if op.name in ALPHA:
                act = (f'call.args[2].given\n      ? kpy_scaled_call{suffix}(&kpy_op_{op.name}, '
                       f'call.self, call.args[1].object, call.args[2].number)\n      : {act}')
            self.code.append(
                f'static PyObject *call_{name}(PyObject *self, PyObject *const *args, '
                'Py_ssize_t n,\n    PyObject *keywords) {\n  kpy_call call;\n'
                f'  if (!kpy_parse(&call, &signature_{name}, self, args, n, keywords)) '
                f'return NULL;\n  return kpy_finish(&call, {act});\n}}')
            names = [name] + [alias + suffix for alias in ALIASES.get(op.name, [])]
            self.trampolines(name, names, op, params, function=not suffix)

    # The table of a binary operator's C functions.
    def table(self, name):
        def form(c_name, second):
            if not self.has(c_name):
                return 'NULL'
            types = [t for t, _ in self.c_params(c_name)]
            return 'kael_' + c_name if types == ['kael_tensor *', second] else 'NULL'
        tensor, number = 'kael_tensor *', 'kael_scalar'
        forms = []
        for suffix in ('', '_'):
            plain = form(name + suffix, tensor)
            if plain == 'NULL':
                plain = form(name + '_tensor' + suffix, tensor)
            scalar = form(name + '_scalar' + suffix, number)
            if scalar == 'NULL':
                scalar = form(name + suffix, number)
            forms += [plain, scalar]
        return f'const kpy_binary kpy_op_{name} = {{"{name}", {", ".join(forms)}}};'


def main():
    ops_def, include, stubs_in, out_h, out_c, out_stubs = (Path(a) for a in sys.argv[1:])
    ops = read_ops(ops_def)
    known = {op.name for op in ops}
    ops += [Op(name, 'OTHER', args, False, doc) for name, (args, doc) in MORE.items()
            if name not in known]
    prototypes = read_prototypes(include / 'kael')
    writer = Writer(prototypes)
    tables = sorted(set(SYMBOLS) | {op.name for op in ops if op.form == 'BINARY'})
    for op in ops:
        writer.operator(op)

    header = ['/* Made by generate.py: the binary operators, and which functions there are. */',
              '#ifndef KAEL_OPS_TABLE_H', '#define KAEL_OPS_TABLE_H', '', '#include "frontend/python/kpy.h"', '']
    header += [f'#define KPY_HAVE_{name} 1' for name in sorted(prototypes)]
    header += ['']
    header += [f'KPY_HIDDEN extern const kpy_binary kpy_op_{name};' for name in tables]
    header += ['KPY_HIDDEN extern kael_tensor *(*const kpy_op_bitwise_not)(kael_tensor *);', '',
               '#endif', '']
    out_h.write_text('\n'.join(header))

    lines = ['/* Made by generate.py of frontend/ops.def and the public headers. */',
             '#include "frontend/python/kael/ops_table.h"', '',
             '#define FAST(function) \\\n  ((PyCFunction)(void (*)(void))(function)), '
             'METH_FASTCALL | METH_KEYWORDS', '']
    lines += [writer.table(name) for name in tables]
    inverse = 'kael_bitwise_not' if writer.has('bitwise_not') else 'NULL'
    lines += [f'kael_tensor *(*const kpy_op_bitwise_not)(kael_tensor *) = {inverse};', '']
    lines += writer.code
    for array, rows in (('kpy_op_methods', writer.methods), ('kpy_op_functions', writer.functions)):
        lines += ['', f'PyMethodDef {array}[] = {{', *rows, '    {NULL, NULL, 0, NULL}};']
    lines += [''] + [f'/* Left out: {reason} */' for reason in writer.unknown] + ['']
    out_c.write_text('\n'.join(lines))
    stubs = stubs_in.read_text()
    stubs = stubs.replace('    # METHODS\n', '\n'.join(writer.method_stubs) + '\n')
    out_stubs.write_text(stubs.replace('# FUNCTIONS\n', '\n'.join(writer.function_stubs) + '\n'))


if __name__ == '__main__':
    main()
