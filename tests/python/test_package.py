"""What comes with the package: documentation and types of all that is public."""
import ast
import inspect
from pathlib import Path

import kael as k

STUBS = Path(k.__file__).with_name('__init__.pyi')


def public(owner):
    return [name for name in dir(owner) if not name.startswith('_')]


def test_everything_public_is_documented():
    bare = [name for owner in (k, k.Tensor, k.autograd, k.nn.functional, k.optim, k.testing)
            for name in public(owner)
            if (callable(getattr(owner, name)) or inspect.isdatadescriptor(getattr(owner, name)))
            and not inspect.getdoc(getattr(owner, name))]
    assert not bare


def test_the_stubs_are_python_and_name_the_methods():
    tree = ast.parse(STUBS.read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = {node.name for node in classes['Tensor'].body if isinstance(node, ast.FunctionDef)}
    assert {'sum', 'add_', 'softmax', 'item', 'reshape'} <= names
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {'softmax', 'add', 'tensor', 'cat', 'explain'} <= functions


def test_operators_have_signatures():
    assert str(inspect.signature(k.softmax)) == '(input, dim, *, dtype=None)'
    assert str(inspect.signature(k.ones(1).sum)) == '(dim=None, keepdim=False, *, dtype=None)'
    assert str(inspect.signature(k.Tensor.reshape)) == '(self, /, *shape)'
