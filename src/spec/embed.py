# SPDX-License-Identifier: Apache-2.0
"""Write a text file as a C string: embed.py INPUT OUTPUT NAME HEADER"""
import sys

source, target, name, header = sys.argv[1:]
with open(source, encoding='utf-8') as file:
    lines = file.read().splitlines()
with open(target, 'w', encoding='utf-8') as out:
    out.write(f'#include "{header}"\n\nconst char {name}[] =\n')
    for line in lines:
        quoted = line.replace('\\', '\\\\').replace('"', '\\"').replace('?', '\\?')
        out.write(f'\t"{quoted}\\n"\n')
    out.write('\t;\n')
