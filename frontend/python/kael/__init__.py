"""kael: tensors with the semantics of PyTorch, and a lazy graph compiler behind them.

    import kael
    x = kael.arange(6.).reshape(2, 3)
    print((x * 2).sum(dim=1))

KAEL_JIT in the environment says when operations run: 0 as they are called, 1 when a value is needed,
sync the same with compiled code from the first run on.
"""
from . import _C
from ._C import *  # noqa: F401,F403
from ._C import Tensor, dtype
from ._size import Size
from ._methods import (UntypedStorage, allclose, as_tensor, clone, equal, is_floating_point,
                       is_tensor, isclose, norm, numel, stack, std, var, where)
from ._modes import (compile, enable_grad, eval, inference_mode, jit, jit_mode, manual_seed,
                     no_grad, set_grad_enabled, set_jit)
from ._repr import set_printoptions
from . import autograd, nn, optim, testing

bool = _C.bool  # the names of dtypes hide Python's, as in PyTorch
float = _C.float32
int = _C.int32
inf = __import__('math').inf
nan = __import__('math').nan
pi = __import__('math').pi

__version__ = '0.1.0'
