# SPDX-License-Identifier: Apache-2.0
"""Make a C table of the names that the host trusts: names.py trusted-names.txt OUTPUT"""
import re
import sys

source, target = sys.argv[1:]
groups, seen = [], set()
with open(source, encoding='utf-8') as file:
    for number, line in enumerate(file, 1):
        line = line.strip()
        if not line or line.startswith('#'):
            continue
        header = re.fullmatch(r'\[([^]]+)\] (protect|mark)', line)
        if header:
            groups.append((header[1], header[2] == 'mark', []))
            continue
        parts = line.split(None, 1)
        if len(parts) != 2 or not groups:
            sys.exit(f'{source}:{number}: a name, then who obeys it')
        name = parts[0]
        if name != name.lower() or name.count('/') > 2 or '*' in name[1:-1] or len(name) < 2 or name in seen:
            sys.exit(f'{source}:{number}: {name}: lower case, at most three components, a star only in front, each once')
        seen.add(name)
        groups[-1][2].append((name, parts[1]))


def quote(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"').replace('?', '\\?') + '"'


with open(target, 'w', encoding='utf-8') as out:
    out.write('#include "spec/names.h"\n')
    for i, (what, is_mark, names) in enumerate(groups):
        for kind, column in (('names', 0), ('sources', 1)):
            out.write(f'\nstatic const char *const {kind}_{i}[] = {{\n')
            out.writelines(f'\t{quote(entry[column])},\n' for entry in names)
            out.write('\tNULL,\n};\n')
    out.write('\nconst struct names_group names_groups[] = {\n')
    for i, (what, is_mark, names) in enumerate(groups):
        out.write(f'\t{{{quote(what)}, names_{i}, sources_{i}, {"true" if is_mark else "false"}}},\n')
    out.write(f'}};\nconst size_t names_group_count = {len(groups)};\n')
