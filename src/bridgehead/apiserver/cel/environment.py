"""Environments, in which expressions are compiled, and programs.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `apiserver/pkg/cel/environment`, `apis/cel/config.go`, `admission/plugin/cel/compile.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from .checker import Checker
from .compiling import Compiler, MakeStruct
from .declarations import Functions
from .errors import BudgetExceeded, CompileError, EvaluationError, ProgramError, WrongResult
from .estimation import estimate_cost
from .library import STANDARD
from .literal_validation import check_literals
from .parser import parse
from .syntax_tree import Comprehension, Node
from .types import Type
from .values import Frame

# The most that one evaluation may cost.
PER_CALL_LIMIT = 1_000_000
# The most that all rules for one object, or all policies for one request, may cost together.
REQUEST_BUDGET = 10_000_000
# The most that all matchConditions of one webhook or policy may cost together.
MATCH_CONDITIONS_BUDGET = 2_500_000


class Budget:
    """The cost that the evaluations of one request may still have."""

    __slots__ = ("remaining",)

    def __init__(self, limit: int = REQUEST_BUDGET) -> None:
        self.remaining = limit

    def spend(self, cost: int) -> None:
        """Subtract the cost of an evaluation. Raises BudgetExceeded."""
        self.remaining -= cost
        if self.remaining < 0:
            raise BudgetExceeded


class Program:
    """A compiled expression. `references` are the variables that it reads, `result` is its type.

    `has_loops`: it has comprehensions, so that it may take long for small objects too.
    """

    def __init__(
        self,
        root: Node,
        variables: Mapping[str, Type],
        references: frozenset[str],
        make_struct: MakeStruct,
        *,
        has_loops: bool = False,
    ) -> None:
        self._root = root
        self._variables = variables
        self.references = references
        self.has_loops = has_loops
        self.result = root.type
        compiler = Compiler(make_struct)
        self._run = compiler.compile(root)
        self._locals_count = compiler.locals_count

    @cached_property
    def most_cost(self) -> int:
        """The estimate of the most that an evaluation costs; 2**64 - 1 if it is unbounded."""
        return estimate_cost(self._root, self._variables).most

    def evaluate(self, variables: Mapping[str, Any], budget: Budget, limit: int = PER_CALL_LIMIT) -> Any:
        """Return the value of the expression (see `values`) and spend its cost, also if it fails.

        Variables are decoded JSON. Raises EvaluationError, and BudgetExceeded when the budget is used up.
        """
        frame = Frame(variables, self._locals_count, limit)
        try:
            value = self._run(frame)
            if frame.cost > limit:
                frame.charge(0)
            return value
        except RecursionError:
            raise EvaluationError("the value or the expression is nested too deeply") from None
        finally:
            budget.spend(min(frame.cost, limit))


def _no_struct(name: str) -> Type | None:
    return None


def _make_no_struct(name: str, fields: dict[str, Any]) -> Any:
    raise EvaluationError(f"unknown type '{name}'")


class Environment:
    """The variables, functions and message types that expressions can use.

    `structs` returns the type of a message by its name, for `Name{field: value}`; `make_struct` makes its value.
    `has_bind`: expressions can use the macro `cel.bind`.
    """

    def __init__(
        self,
        variables: Mapping[str, Type],
        *,
        functions: Functions = STANDARD,
        structs: Callable[[str], Type | None] = _no_struct,
        make_struct: MakeStruct = _make_no_struct,
        has_bind: bool = False,
    ) -> None:
        self._variables = dict(variables)
        self._functions = functions
        self._structs = structs
        self._make_struct = make_struct
        self._has_bind = has_bind

    def with_variables(self, variables: Mapping[str, Type]) -> Environment:
        """Return an environment that has further variables."""
        return Environment(
            {**self._variables, **variables},
            functions=self._functions,
            structs=self._structs,
            make_struct=self._make_struct,
            has_bind=self._has_bind,
        )

    def compile(self, expression: str, *, result: Type | tuple[Type, ...] | None = None) -> Program:
        """Compile an expression.

        Raises CompileError; its subclass WrongResult if the type is not `result`, or one of `result`, and its subclass
        ProgramError if the expression has a constant that cannot be converted.
        """
        root = parse(expression, has_bind=self._has_bind)
        checker = Checker(expression, self._variables, self._functions, self._structs)
        found = checker.check(root)
        check_literals(expression, checker.nodes)
        wanted = (result,) if isinstance(result, Type) else result
        if wanted is not None and found not in wanted:
            names = [one.full_name for one in wanted]
            what = names[0] if len(names) == 1 else f"one of [{' '.join(names)}]"
            raise WrongResult(f"must evaluate to {what} but got {found.full_name}", found.full_name)
        try:
            has_loops = any(isinstance(node, Comprehension) for node in checker.nodes)
            return Program(root, self._variables, frozenset(checker.references), self._make_struct, has_loops=has_loops)
        except EvaluationError as error:
            raise ProgramError(str(error)) from None
        except RecursionError:
            raise CompileError(expression, []) from None
