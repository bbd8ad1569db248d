"""Rules that a type checker cannot state, as functions from a syntax tree to what breaks them."""

import ast
from collections.abc import Iterator, Mapping

PURE_MODULES = frozenset(
    "__future__ base64 bisect collections collections.abc datetime decimal difflib enum fnmatch fractions functools "
    "hashlib heapq ipaddress itertools json math operator posixpath re shlex statistics string textwrap types typing "
    "unicodedata urllib.parse zlib msgspec msgspec.json msgspec.structs packaging.requirements packaging.specifiers "
    "packaging.utils packaging.version prometheus_client.parser returns.pipeline returns.result".split()
)
"""An allow-list: a list of what is forbidden would forget one."""

PURE_NAMES = frozenset({("signal", "Signals")})
"""Tables of names from modules that else act."""

FROM_RETURNS = frozenset("Failure Result Success is_successful safe".split())
IMPURE_NAMES = frozenset("__import__ breakpoint eval exec globals input open print vars".split())
IMPURE_ATTRIBUTES = frozenset(
    "abspath cwd environ exists expanduser fromtimestamp getcwd getenv getlogin gethostname home isdir isfile islink "
    "mkdir monotonic now open perf_counter putenv read_bytes read_text realpath sleep time_ns today unlink urandom "
    "utcnow uuid1 uuid4 write_bytes write_text".split()
)
LOCAL_CHANGES = frozenset(
    "add append appendleft clear discard extend insert pop popleft remove setdefault sort update".split()
)
"""Calls that may stand alone in pure code: they change a container that the function itself made."""

MUTABLE = frozenset(
    "list dict set bytearray deque defaultdict Counter OrderedDict List Dict Set MutableMapping MutableSequence".split()
)
NEWER_THAN_3_10 = frozenset(
    "typing.assert_never typing.assert_type typing.Self typing.Never typing.LiteralString typing.NotRequired "
    "typing.Required typing.Unpack typing.TypeVarTuple typing.override typing.reveal_type typing.dataclass_transform "
    "enum.StrEnum enum.verify enum.member asyncio.TaskGroup asyncio.timeout asyncio.timeout_at asyncio.Runner "
    "asyncio.Barrier datetime.UTC hashlib.file_digest contextlib.chdir itertools.batched operator.call math.cbrt "
    "math.exp2 re.NOFLAG logging.getLevelNamesMapping inspect.getmembers_static".split()
)
NEWER_MODULES = frozenset("tomllib wsgiref.types annotationlib compression".split())
NEWER_BUILTINS = frozenset("ExceptionGroup BaseExceptionGroup PythonFinalizationError".split())


def imports(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Every import anywhere, as (module, name); a relative one as ``.``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{'.' * node.level}{node.module or ''}", alias.name) for alias in node.names)


def imported_modules(tree: ast.AST, modules: Mapping[str, object]) -> Iterator[str]:
    """Modules among `modules` that are imported, also as ``from core import units``; their packages run too."""
    for module, name in imports(tree):
        whole = f"{module}.{name}"
        found = whole if whole in modules else module
        parts = found.split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1) if ".".join(parts[:end]) in modules)


def closure(roots: set[str], trees: Mapping[str, ast.AST]) -> set[str]:
    """The roots and all modules of ours that are loaded with them."""
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting.extend(imported_modules(trees[module], trees))
    return reached


def impure_imports(tree: ast.AST, also: frozenset[str] = frozenset()) -> Iterator[str]:
    """Imports that pure code may not have."""
    for module, name in imports(tree):
        ours = module == "core" or module.startswith("core.")
        if not (ours or module in PURE_MODULES | also or (module, name) in PURE_NAMES):
            yield f"import of {module}"
        elif module.startswith("returns.") and name not in FROM_RETURNS:
            yield f"import of {module}.{name}"


def impure_calls(tree: ast.AST) -> Iterator[str]:
    """Uses of names that read or change the world, and rebinding of globals."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_NAMES:
            yield f"{node.id} in line {node.lineno}"
        elif isinstance(node, ast.Attribute) and node.attr in IMPURE_ATTRIBUTES:
            yield f".{node.attr} in line {node.lineno}"
        elif isinstance(node, ast.Global):
            yield f"global in line {node.lineno}"


def bare_calls(tree: ast.AST) -> Iterator[str]:
    """Calls whose result nobody looks at: useless in pure code, or an ignored `Result`.

    A function of the same module that says ``-> None`` has no result; it fills something that its caller made.
    """
    without = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) == "None"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            method = isinstance(called, ast.Attribute)
            name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
            if not (method and name in LOCAL_CHANGES) and name not in without | {"assert_never"}:
                yield f"{ast.unparse(called)}() in line {node.lineno}"


def opened_results(tree: ast.AST) -> Iterator[str]:
    """Matching on or asking for the class of a `Result`, which mypy does not narrow."""
    outcomes = {"Success", "Failure", "Result"}
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass) and ast.unparse(node.cls).split(".")[-1] in outcomes:
            yield f"case {ast.unparse(node.cls)} in line {node.lineno}"
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("isinstance", "issubclass")
            and len(node.args) == 2
        ):
            asked = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            if asked & outcomes:
                yield f"isinstance in line {node.lineno}"


def struct_names(trees: Mapping[str, ast.AST]) -> frozenset[str]:
    """Names of all classes that are structs, also by way of another one."""
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {"Struct"}
    while True:
        more = {node.name for node in classes if _bases(node) & known} - known
        if not more:
            return frozenset(known)
        known |= more


def loose_structs(tree: ast.AST, structs: frozenset[str]) -> Iterator[str]:
    """Structs that are not frozen or take arguments by place; both are said on each class, they are not inherited."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _bases(node) & structs:
            said = {keyword.arg for keyword in node.keywords if ast.unparse(keyword.value) == "True"}
            if not {"frozen", "kw_only"} <= said:
                yield node.name


def mutable_fields(tree: ast.AST, structs: frozenset[str]) -> Iterator[str]:
    """Fields of structs that could be changed in place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and _bases(node) & structs:
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and _names(field.annotation) & MUTABLE:
                    yield f"{node.name}.{ast.unparse(field.target)}"


def newer_than_3_10(tree: ast.AST) -> Iterator[str]:
    """Parts of the standard library that Python 3.10 does not have."""
    for module, name in imports(tree):
        if module in NEWER_MODULES or f"{module}.{name}" in NEWER_THAN_3_10:
            yield f"{module}.{name}" if name else module
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in NEWER_THAN_3_10:
            yield ast.unparse(node)
        elif isinstance(node, ast.Name) and node.id in NEWER_BUILTINS:
            yield node.id


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def _names(annotation: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
