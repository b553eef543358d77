#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""worker/examples/cluster.c: whole outputs for the seed's cluster and for others, and what it says to bad ones."""
import os
import sys
import tempfile
import unittest

from cluster import main, path, run

EXAMPLE = path("examples/cluster")


def variable_def(name):
    """As the seed prints it."""
    return f'variable_name: "{name}:0"\ninitializer_name: "{name}/Assign"\nsnapshot_name: "{name}/read:0"\n'


SEED = """\
{'ps': ['tensorflow0.pipeline.io:8888', 'tensorflow1.pipeline.io:8888'],
 'worker': ['tensorflow2.pipeline.io:8888', 'tensorflow3.pipeline.io:8888']}
['ps', 'worker']
('ps', ['tensorflow0.pipeline.io:8888', 'tensorflow1.pipeline.io:8888'])
('worker', ['tensorflow2.pipeline.io:8888', 'tensorflow3.pipeline.io:8888'])
['/job:worker/task:0', '/job:worker/task:1']
['/job:ps/task:0', '/job:ps/task:1']
''
'/job:ps/task:1'
""" + variable_def("Variable_2")

SPARSE = """\
{'ps': {'1': 'b:1', '2': 'c:1'},
 'worker': {'1': 'd:2222', '3': 'e:2222'}}
['ps', 'worker']
('ps', [None, 'b:1', 'c:1'])
('worker', [None, 'd:2222', None, 'e:2222'])
['/job:worker/task:1', '/job:worker/task:3']
['/job:ps/task:1', '/job:ps/task:2']
''
'/job:ps/task:2'
""" + variable_def("Variable_2")

LOCAL = """\
{'local': ['[::1]:2222', 'unix:/run/local1']}
['local']
('local', ['[::1]:2222', 'unix:/run/local1'])
[]
[]
''
""" + variable_def("Variable")


class ClusterExample(unittest.TestCase):
    def gives(self, output, *args):
        self.assertEqual(run(EXAMPLE, *args), (0, output, ""))

    def test_the_seeds_cluster(self):
        self.gives(SEED)
        self.gives(SEED, "worker=tensorflow2.pipeline.io:8888,tensorflow3.pipeline.io:8888;"
                         "ps=tensorflow0.pipeline.io:8888,tensorflow1.pipeline.io:8888")

    def test_the_seeds_variable(self):
        """Its notebook had made 23 before, and ours makes one for each ps."""
        spec = "ps=" + ",".join("h%d:1" % i for i in range(24))
        code, out, err = run(EXAMPLE, spec)
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out.endswith("\n''\n'/job:ps/task:23'\n" + variable_def("Variable_24")), out)

    def test_sparse(self):
        self.gives(SPARSE, "ps=1@b:1,c:1;worker=1@d,3@e")
        self.gives(SPARSE, '{"worker": {"3": "e", "1": "d"}, "ps": {"2": "c:1", "1": "b:1"}}')
        self.gives(SPARSE, "{u'worker': {3: 'e', 1: 'd',}, 'ps': {1: 'b:1', 2: 'c:1'},}")

    def test_files(self):
        with tempfile.TemporaryDirectory() as directory:
            name = os.path.join(directory, "spec")
            for text, output in (
                    ("# one job only\nlocal=[::1],unix:/run/local1\n", LOCAL),
                    ("# as JSON\n{\"local\": [\"[::1]\",\n  # the second\n  \"unix:/run/local1\"]}\n", LOCAL),
                    ("{\n'ps': {1: 'b:1', 2: 'c:1'},\n\n'worker': {1: 'd', 3: 'e'},\n}\n", SPARSE)):
                with self.subTest(text=text):
                    with open(name, "w", encoding="utf-8") as f:
                        f.write(text)
                    self.gives(output, "@" + name)

    def test_empty(self):
        self.gives("{}\n[]\n[]\n[]\n''\n" + variable_def("Variable"), "{}")

    def test_bad_clusters(self):
        with tempfile.TemporaryDirectory() as directory:
            name = os.path.join(directory, "bad")
            with open(name, "w", encoding="utf-8") as f:
                f.write("# fine\nps=a:1\nworker=b:1,b:x\n")
            for spec, error in (
                    ("ps", "cluster spec: line 1, column 1: 'ps' is not of the form JOB=HOST:PORT,HOST:PORT"),
                    ("ps=a:1;worker=b:1,a:1",
                     "cluster spec: line 1, column 19: address 'a:1' is given twice: /job:ps/task:0 and /job:worker/task:1"),
                    ("{'ps': ['a:1'", "cluster spec: line 1, column 14: ',' or the end of the list is expected, not the end"),
                    ("{'ps': {1: 'a:1', 1: 'b:1'}}", "cluster spec: line 1, column 22: /job:ps/task:1 is given twice"),
                    ("@" + name, f"cluster file {name}: cluster spec: line 3, column 12: /job:worker/task:1: address 'b:x': the port "
                                 "is not a number from 1 to 65535; allowed are HOST:PORT, HOST, [IPV6]:PORT and unix:PATH"),
                    ("@" + name + "x", f"cluster file {name}x: No such file or directory")):
                with self.subTest(spec=spec):
                    self.assertEqual(run(EXAMPLE, spec), (2, "", f"cluster: {error}\n"))
        for args in (("a=b:1", "c=d:1"), ("--halp",)):
            code, out, err = run(EXAMPLE, *args)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("usage: cluster [SPEC]", err)


if __name__ == "__main__":
    sys.exit(main(unittest))
