"""Build hook: writes the API's definitions into the package.

The package kubernetes-validate has Kubernetes' JSON schemas of 14 versions, 108 MB, and the API server reads one file
of them. So the package is needed when Bridgehead is built, and that file becomes a part of Bridgehead.
"""

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BODIES = Path("src/bridgehead/apiserver/bodies")
VERSION = re.compile(r'^VERSION = "([^"]+)"', re.MULTILINE)


class DefinitionsHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        bodies = Path(self.root) / BODIES
        version = VERSION.search((bodies / "definitions.py").read_text(encoding="utf-8"))[1]
        package = Path(importlib.util.find_spec("kubernetes_validate").origin).parent
        schemas = package / "kubernetes-json-schema" / version / "_definitions.json"
        written = bodies / "definitions.json"
        # Replaced as a whole, because running servers may have mapped the file.
        new = written.with_suffix(".new")
        shutil.copyfile(schemas, new)
        new.replace(written)
        build_data["artifacts"].append(str(BODIES / "definitions.json"))
