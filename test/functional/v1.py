# SPDX-License-Identifier: Apache-2.0
"""
A daemon whose /v1 is asked: with V1() as daemon: box = daemon.box(); daemon.run(box, "echo", "hi")

want()    what was answered, with this status. Every answer of JSON is held against the schema that openapi.json has for it.
box()     a new sandbox's id. run() a command to its end: the step; out() what it printed.
events()  a stream of server-sent events: (id, name, object), until it ends or the connection breaks.
again()   kill -9, and started once more at the same place.
"""

import base64
import json
import os
import re
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import *  # noqa: F401,F403

ROOT = os.environ.get("ATOLL_ROOT") or os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
with open(os.path.join(ROOT, "src", "v1", "openapi.json")) as _file:
    DOCUMENT = json.load(_file)


def misfit(value, schema, where="answer"):
    """Why a value does not fit a schema, of the words that openapi.json uses; None if it does."""
    if "$ref" in schema:
        found = DOCUMENT
        for name in schema["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        return misfit(value, found, where)
    if "oneOf" in schema:
        problems = [misfit(value, one, where) for one in schema["oneOf"]]
        return None if None in problems else problems[0]
    if "const" in schema and value != schema["const"]:
        return f"{where}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    python = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
              "number": (int, float)}
    if kinds and not any(isinstance(value, python[kind]) and (kind == "boolean" or not isinstance(value, bool))
                         for kind in kinds):
        return f"{where}: {value!r} is no {kinds}"
    if isinstance(value, dict):
        return misfit_object(value, schema, where)
    if isinstance(value, list):
        for i, item in enumerate(value):
            problem = misfit(item, schema.get("items", {}), f"{where}[{i}]")
            if problem:
                return problem
    if isinstance(value, (int, float)) and value < schema.get("minimum", value):
        return f"{where}: {value} is below {schema['minimum']}"
    return None


def misfit_object(value, schema, where):
    for name in schema.get("required", []):
        if name not in value:
            return f"{where}: '{name}' is missing"
    for name, member in value.items():
        known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
        if known is False:
            return f"{where}: '{name}' is not in the document"
        problem = misfit(member, known, f"{where}.{name}")
        if problem:
            return problem
    return None


def operation_of(method, path):
    """What the document says about a request, or None."""
    plain = urllib.parse.urlsplit(path).path
    # Plain words before names in braces, as the router does.
    for pattern in sorted(DOCUMENT["paths"], key=lambda p: p.count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), plain):
            return DOCUMENT["paths"][pattern].get(method.lower())
    return None


def held_against_document(method, path, status, body):
    operation = operation_of(method, path)
    check(operation, f"{method} {path} is not in openapi.json")
    answer = operation["responses"].get(str(status)) or operation["responses"]["default"]
    if "$ref" in answer:
        answer = DOCUMENT["components"]["responses"]["Failure"]
        check(status >= 400, f"{method} {path}: {status} is not in openapi.json")
    schema = answer.get("content", {}).get("application/json", {}).get("schema")
    if schema and isinstance(body, (dict, list)):
        problem = misfit(body, schema)
        if problem and status == 409:
            problem = misfit(body, DOCUMENT["components"]["schemas"]["Error"])
        check(not problem, f"{method} {path}: {status}: {problem}")


class V1(Daemon):
    def want(self, status, method, path, body=None, **more):
        got, answer, self.headers = self.call(method, path, body, **more)
        check(got == status, f"{method} {path} {body}: {got} {answer}, not {status}\n{self.stderr()[-1500:]}")
        held_against_document(method, path, status, answer)
        return answer

    def refused(self, status, cause, method, path, body=None, **more):
        error = self.want(status, method, path, body, **more)["error"]
        same(error["cause"], cause, f"cause of {method} {path}: {error}")
        return error

    def box(self, **members):
        return self.want(201, "POST", "/v1/sandboxes", members)["id"]

    def run(self, box, *command, **members):
        return self.want(201, "POST", f"/v1/sandboxes/{box}/steps", {"command": list(command), "wait": 60, **members})

    def start_step(self, box, *command, **members):
        return self.want(201, "POST", f"/v1/sandboxes/{box}/steps", {"command": list(command), **members})["number"]

    def wait_step(self, box, number):
        for _, name, data in self.events(f"/v1/sandboxes/{box}/steps/{number}/events"):
            if name == "end":
                return data
        raise Failed(f"step {number} has no end")

    def events(self, path, after=None, key=""):
        mine = self.connect()
        try:
            headers = {"X-API-KEY": key or self.key}
            if after is not None:
                headers["Last-Event-ID"] = after
            mine.request("GET", path, headers=headers)
            answer = mine.getresponse()
            # One that was just started looks for what runs, and says so.
            while answer.status == 503 and answer.getheader("Retry-After"):
                answer.read()
                time.sleep(0.05)
                mine.request("GET", path, headers=headers)
                answer = mine.getresponse()
            if answer.status != 200:
                raise Failed(f"{path}: {answer.status} {answer.read()}")
            yield from read_events(answer)
        except (OSError, http.client.HTTPException):
            return
        finally:
            mine.close()

    def raw(self, path):
        mine = self.connect()
        mine.request("GET", path, headers={"X-API-KEY": self.key})
        answer = mine.getresponse()
        content = answer.read()
        mine.close()
        check(answer.status == 200, f"{path}: {answer.status} {content}")
        return content

    def again(self):
        self.crash()
        self.listen = self.url.removeprefix("http://")
        self.start()


def read_events(answer):
    block = {}
    while line := answer.readline():
        line = line.decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if line and not line.startswith(":"):
            block[name] = value
        elif not line and "data" in block:
            yield block.get("id"), block.get("event"), json.loads(block["data"])
            block = {}


def out(step, stream="out"):
    return base64.b64decode(step[stream]["data"])
