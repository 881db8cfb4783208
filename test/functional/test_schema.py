#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# check: seconds 64
# check: user only
# check: not sanitized
"""
`atoll schema` against the parser

What an editor accepts by the schema, `atoll run` accepts, and the other way round, for every case of bad-jobs.jsonl and
good-jobs.jsonl and for some hundred jobs that are made from the good ones by small changes. The few things that a schema cannot
say are in BEYOND, by what the program says about them; nothing else may differ.

Validator is a small one for the part of JSON Schema (draft 2020-12) that our schema uses; a keyword that it does not know is an
error, so that it cannot fall behind.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib import *  # noqa: E402
import copy  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))

# What only the program can refuse: it needs to know this host, this caller, or several keys at once.
BEYOND = [
    r"No such file or directory",           # whether a path exists
    r"not yet available",                   # a later version will take it
    r"that is the kernel's|would open|cannot be written as a whole|belongs to the sandbox|is hidden by|reserved for atoll|holds what atoll",  # which paths are broad or taken
    r"the command is empty",                # of a list's first word only
    r"'\d+\.\d{4,}' is not a ",            # how many decimals
    r"'version' cannot be '1\.0'",          # is the same number as 1
    r"no command|there is no command",      # may come from the command line
    r"is (not|too) .*(range|small|large|least|most)|; \S+ to \S+ is allowed|is out of range",  # numbers in strings: "0", "5Ki"
    r"Bad file descriptor",                 # which descriptors the caller has
    r"which is not in the workspace",       # cwd and workspace together
    r"the same .* twice|contradict",
    r"A NUL|a NUL character",               # in a string
    r"variable '.*'(: names with ATOLL_| cannot be passed)|is no name for a variable|named twice",  # keys of environment.set
    r"mixes a pattern|'\[' without '\]'|in pattern",  # the inside of a pattern
    r"is no host: |is no host name; |has bits set beyond|is no wide pattern|is no port; ",  # the inside of a host
    r"path '.*' cannot match: |method '.*' is never passed on|says where a request goes or ends|no proxy; write|is atoll's own; take",
    r"is there already \(|a secret belongs to one host|which (no line|only '.*') allows|goes only over TLS|says 'tls: |at an address: ",  # several lines at once
    r"more than \d+ (published ports|ports for one host)|is a secret \(",
    r"cannot be '.*', which (is a directory of|belongs to) the system|an absolute path without|only in mode layer|lies in the workspace|the image's root '|is the image's here",  # places inside
    r"has an id of its own|has the name or the id of|more than 16 users",  # users together
    r"File name too long|is longer than|is a symbolic link|Not a directory",
]


class Validator:
    KNOWN = {"$schema", "title", "description", "default", "type", "properties", "additionalProperties", "items", "minItems", "minimum",
             "maximum", "minLength", "maxLength", "pattern", "enum", "anyOf", "$ref", "$defs", "required", "examples", "uniqueItems"}
    TYPES = {"string": str, "object": dict, "array": list, "boolean": bool, "null": type(None)}

    def __init__(self, schema):
        self.root = schema
        self.seen = set()  # keywords that were used

    def why(self, data, schema=None, where="job"):
        """None, or why it is refused."""
        schema = self.root if schema is None else schema
        if schema is True:
            return None
        if schema is False:
            return "%s is not allowed" % where
        for key in schema:
            check(key in self.KNOWN, "a keyword that this validator does not know: %s" % key)
            self.seen.add(key)
        if "$ref" in schema:
            problem = self.why(data, self._follow(schema["$ref"]), where)
            if problem:
                return problem
        for keyword in ("type", "enum", "anyOf"):
            if keyword in schema:
                problem = getattr(self, "_" + keyword)(data, schema[keyword], where)
                if problem:
                    return problem
        for kind, method in ((str, self._string), (dict, self._object), (list, self._array)):
            if isinstance(data, kind):
                return method(data, schema, where)
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            if data < schema.get("minimum", data) or data > schema.get("maximum", data):
                return "%s: %s is out of range" % (where, data)
        return None

    def _follow(self, reference):
        check(reference.startswith("#/"), "a reference to elsewhere: %s" % reference)
        at = self.root
        for part in reference[2:].split("/"):
            at = at[part.replace("~1", "/").replace("~0", "~")]
        return at

    def _type(self, data, wanted, where):
        for name in wanted if isinstance(wanted, list) else [wanted]:
            if name in ("integer", "number"):
                right = isinstance(data, (int, float)) and not isinstance(data, bool) and (name == "number" or float(data).is_integer())
            else:
                right = isinstance(data, self.TYPES[name])
            if right:
                return None
        return "%s is no %s" % (where, wanted)

    @staticmethod
    def _enum(data, words, where):
        return None if any(type(data) is type(w) and data == w for w in words) else "%s: %r is none of %s" % (where, data, words)

    def _anyOf(self, data, ways, where):
        problems = [self.why(data, way, where) for way in ways]
        return None if None in problems else "; ".join(problems)

    @staticmethod
    def _string(data, schema, where):
        if not schema.get("minLength", 0) <= len(data) <= schema.get("maxLength", len(data)):
            return "%s: %d characters" % (where, len(data))
        # ECMA's $ is the very end, Python's \Z.
        if "pattern" in schema and not re.search(re.sub(r"\$$", r"\\Z", schema["pattern"]), data):
            return "%s: %r does not match" % (where, data)
        return None

    def _object(self, data, schema, where):
        properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key in schema.get("required", []):
            if key not in data:
                return "%s lacks %s" % (where, key)
        for key, value in data.items():
            problem = self.why(value, properties.get(key, more), "%s.%s" % (where, key))
            if problem:
                return problem
        return None

    def _array(self, data, schema, where):
        if len(data) < schema.get("minItems", 0):
            return "%s is too short" % where
        if schema.get("uniqueItems") and len({json.dumps(item) for item in data}) < len(data):
            return "%s has something twice" % where
        for i, item in enumerate(data):
            problem = self.why(item, schema.get("items", True), "%s[%d]" % (where, i))
            if problem:
                return problem
        return None


def cases(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


class Bench:
    def __init__(self, place):
        self.place = place
        self.ws = os.path.join(place.home, "project")
        os.makedirs(self.ws + "/sub/x/y")
        place.settle()
        # Open for each of thousands of runs, which so are started without a copy of this process for it.
        for number in (5, 1023):
            os.dup2(2, number)
        self.validator = Validator(json.loads(atoll(place, "schema").out))

    def parser(self, data):
        """None if the program takes it, else what it says."""
        result = atoll(self.place, "run", "--plan", "-f", "-", stdin=json.dumps(data), cwd=self.ws)
        check(result.status in (0, 240, 241) or "not yet available" in result.err, "status %d for %s: %s" % (result.status, json.dumps(data)[:300], result.err))
        return None if result.status == 0 else result.err.strip()

    def differ(self, data):
        """None, or how the two differ about a job."""
        schema, parser = self.validator.why(data), self.parser(data)
        if (schema is None) == (parser is None):
            return None
        if schema is None and any(re.search(pattern, parser) for pattern in BEYOND):
            return None
        return "%s: schema %s; parser %s" % (json.dumps(data)[:200], schema or "accepts", parser or "accepts")


def every(bad):
    for line in bad[:20]:
        print("# " + line.encode("ascii", "backslashreplace").decode())
    check(not bad, "%d cases differ" % len(bad))


@test("the schema is JSON and has what an editor wants")
def _():
    with Place(repository=False) as place:
        result = atoll(place, "schema")
        same((result.status, result.err), (0, ""), "status and stderr")
        schema = json.loads(result.out)
        same(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "$schema")
        for name, section in schema["properties"].items():
            check(section.get("description"), "no description of %s" % name)
        same(set(schema["properties"]), {"version", "command", "image", "workspace", "root", "users", "guest", "checkpoints", "filesystem", "network",
                                         "identity", "limits", "environment", "isolation", "approval", "audit"}, "sections")


@test("the validator refuses what it should")
def _():
    validator = Validator({"$defs": {"p": {"type": "string", "pattern": "^a$"}}, "type": "object", "additionalProperties": {"$ref": "#/$defs/p"},
                           "properties": {"n": {"anyOf": [{"type": "integer", "minimum": 1}, {"enum": ["x"]}]},
                                          "l": {"type": "array", "minItems": 1, "items": {"type": "boolean"}}}})
    for good in ({}, {"n": 1}, {"n": 2.0}, {"n": "x"}, {"l": [True]}, {"q": "a"}):
        same(validator.why(good), None, str(good))
    for bad in ([], None, {"n": 0}, {"n": True}, {"n": "y"}, {"n": 1.5}, {"l": []}, {"l": [1]}, {"q": "a\n"}, {"q": "b"}, {"q": 1}):
        check(validator.why(bad), "%r was accepted" % bad)


@test("good jobs are good for both")
def _():
    with Place(repository=False) as place:
        bench, bad = Bench(place), []
        for case in cases("good-jobs.jsonl"):
            problem = bench.validator.why(case["data"])
            if problem:
                bad.append("%s: %s" % (case["name"], problem))
            bad += filter(None, [bench.differ(case["data"])])
        every(bad)


@test("bad jobs are what their file says, to the schema")
def _():
    with Place(repository=False) as place:
        bench, bad, n = Bench(place), [], 0
        for case in cases("bad-jobs.jsonl"):
            if "schema" not in case:
                continue
            n += 1
            problem = bench.validator.why(case["data"])
            if (problem is not None) != (case["schema"] == "refuses"):
                bad.append("%s: the schema %s, the file says that it %s" % (case["name"], problem or "accepts", case["schema"]))
            if "args" not in case:
                bad += filter(None, [bench.differ(case["data"])])
        check(n > 100, "only %d cases" % n)
        every(bad)


# ---- mutations ------------------------------------------------------------------------------------------------------

VALUES = [None, True, 0, 1, -1, 1.5, "", "x", "unlimited", [], ["x"], [1], {}, {"x": 1}]


def places(data, path=()):
    """Every place in a job, outermost first."""
    if path:
        yield path
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in children:
        yield from places(value, path + (key,))


def changed(data, path, change):
    made = copy.deepcopy(data)
    at = made
    for key in path[:-1]:
        at = at[key]
    change(at, path[-1])
    return made


def mutations(data):
    def drop(at, key):
        del at[key]

    def rename(at, key):
        if isinstance(at, dict):
            at[key + "x"] = at.pop(key)
        else:
            at.append(at[key])

    def add(at, key):
        if isinstance(at[key], dict):
            at[key]["unheard-of"] = 1
        elif isinstance(at[key], list):
            at[key].append({})
        else:
            at[key] = [at[key]]

    for path in places(data):
        for change in (drop, rename, add):
            yield changed(data, path, change)
        for value in VALUES:
            def replace(at, key, value=value):
                at[key] = value
            yield changed(data, path, replace)


@test("schema and parser agree about jobs that are slightly changed")
def _():
    with Place(repository=False) as place:
        bench, bad, known = Bench(place), [], set()
        made = [job for case in cases("good-jobs.jsonl") for job in mutations(case["data"])]
        fresh = []
        for job in made:
            text = json.dumps(job, sort_keys=True)
            if text not in known:
                known.add(text)
                fresh.append(job)
        check(len(fresh) >= 500, "only %d mutations" % len(fresh))
        most = 150 if "ASAN_OPTIONS" in os.environ else 700  # a bounded time; a start takes several times as long with sanitizers
        step = -(-len(fresh) // most)  # evenly out of all
        sample = fresh[::step]
        accepted = 0
        for job in sample:
            problem = bench.differ(job)
            accepted += bench.validator.why(job) is None
            if problem:
                bad.append(problem)
        check(10 < accepted < len(sample) - 10, "%d of %d accepted: too one-sided to show anything" % (accepted, len(sample)))
        every(bad)


@test("limits: schema and parser agree about every way to write one")
def _():
    words = ["0", "1", "07", "1.5", "1e3", "+1", "-1", " 1", "1 ", "1k", "1K", "1Ki", "1KiB", "1kB", "1KB", "100M", "1.1234567G", "5B", "5b",
             "1s", "1m", "1min", "1h", "1d", "1h30m", "30m1h", "1hm", "90 s", "1ms", "1.5h", "1.5ms", "h", "Unlimited", "unlimited", "none",
             "1\n", "16", "4096", "0x10", "\u0661", "1_000", "1,5", ".5", "5.", "16M", "1.0M",
             0, 1, 2, 16, 60, 1.5, 0.5, 0.001, 0.0001, 1.2345, 1048576, 10 ** 9, 10 ** 15, 10 ** 18, 10 ** 30, -1, True, None]
    with Place(repository=False) as place:
        bench, bad = Bench(place), []
        schema = json.loads(atoll(place, "schema").out)
        for key in schema["properties"]["limits"]["properties"]:
            for word in words:
                bad += filter(None, [bench.differ({"command": ["a"], "limits": {key: word}})])
        every(bad)


main()
