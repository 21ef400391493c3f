"""What neural networks are made of."""
from . import functional

__all__ = ['functional']
