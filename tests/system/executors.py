# SPDX-License-Identifier: Apache-2.0
"""A cluster whose worker tasks execute operations, for the examples that have plans."""
import cluster
from cluster import path


class Executors(cluster.Cluster):
    """ps tasks are psd, worker tasks are `pstrain --serve`. indices: of the workers, where they are not 0, 1 and so on."""

    def __init__(self, count, workers=0, indices=None):
        self.indices = indices or list(range(workers))
        super().__init__(count, workers=len(self.indices))
        self.spec = "ps=%s;worker=%s" % (self.hosts, ",".join("%d@%s" % pair for pair in zip(self.indices, self.worker_addresses)))

    def command(self, i):
        """Program and flags of task i of all."""
        if i < len(self.addresses):
            return super().command(i)
        index = self.indices[i - len(self.addresses)]
        return [path("bin/pstrain"), "--serve", "--job_name", "worker", "--task_index", str(index)]

    def shows(self, line):
        return " lvl=info " not in line

    def said_by_worker(self, k):
        """Lines on the standard error of the k-th worker that are no log lines; it is ended."""
        self.kill(len(self.addresses) + k)
        return [line.rstrip("\n") for line in self.said[len(self.addresses) + k] if not line.startswith("ts=")]
