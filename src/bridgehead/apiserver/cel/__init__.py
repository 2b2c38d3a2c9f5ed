"""CEL, the Common Expression Language, with the libraries, error texts, costs and limits of Kubernetes.

    environment                 `Environment.compile` makes a `Program`; `Program.evaluate` runs it within a `Budget`
    admission_environments      environments of admission policies and match conditions
    device_environment          the environment of selectors of devices
    schema_types                types of variables from schemas
    lexer, parser, macros       text to `syntax_tree`
    checker, unification        types of nodes; names and overloads; `literal_validation`: constants
    compiling, steps, calls,    nodes to closures; `set_and_map_lists` has their `==` and `+`
      comprehensions
    estimation                  the most that an expression costs
    library/                    functions and operators: `declarations` with implementations and `costs`
    types, values, errors       what all of them use

No module touches files, sockets or clocks. The package is imported when the first expression is compiled, not when the
server starts.
Source: https://github.com/google/cel-spec, Kubernetes "Common Expression Language in Kubernetes".
Reasons: docs/decisions/0027-cel.md.
"""

from .environment import MATCH_CONDITIONS_BUDGET, PER_CALL_LIMIT, REQUEST_BUDGET, Budget, Environment, Program
from .errors import BudgetExceeded, CompileError, CostLimitExceeded, EvaluationError, ProgramError, WrongResult
from .types import BOOL, DYN, INT, STRING, Type

__all__ = [
    "BOOL",
    "DYN",
    "INT",
    "MATCH_CONDITIONS_BUDGET",
    "PER_CALL_LIMIT",
    "REQUEST_BUDGET",
    "STRING",
    "Budget",
    "BudgetExceeded",
    "CompileError",
    "CostLimitExceeded",
    "Environment",
    "EvaluationError",
    "Program",
    "ProgramError",
    "Type",
    "WrongResult",
]
