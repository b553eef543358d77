# SPDX-License-Identifier: Apache-2.0
"""Rows of variables, partitioned variables, sums and limits of gradients, against NumPy."""

import asyncio
import threading
import unittest

import numpy as np

import psd


class Rows(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=2)
        self.addCleanup(self.cluster.stop)
        self.session = psd.Session(self.cluster.target, timeout=20)
        self.addCleanup(self.session.close)

    def made(self, name, shape, dtype="float32", optimizer=None):
        v = self.session.variable(name, shape, dtype, optimizer=optimizer)
        want = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        v.assign(want)
        return v, want

    def test_gather(self):
        v, want = self.made("v", (7, 3, 2))
        wide = np.array([[6, -9], [0, -9], [6, -9]], "i8")
        for indices in (4, [], [6, 0, 6], np.array([[1, 2], [3, 3]], "u1"), np.array([5, 1], ">i4"), wide[:, 0], np.uint64(3)):
            with self.subTest(indices=indices):
                at = np.asarray(indices, np.int64)
                got = v.gather(indices)
                np.testing.assert_array_equal(got, want[at])
                self.assertEqual((got.shape, got.dtype), (at.shape + (3, 2), np.dtype("f4")))
        out = np.zeros((2, 3, 2), "f4")
        self.assertIs(v.gather([2, 5], out), out)
        np.testing.assert_array_equal(out, want[[2, 5]])
        np.testing.assert_array_equal(asyncio.run(v.gather_async([1])), want[[1]])
        for dtype in ("float64", "float16", "int8", "uint8", "int32", "int64", "bool"):
            v, want = self.made("v_" + dtype, (5, 3), dtype)
            np.testing.assert_array_equal(v.gather([3, 1]), want[[3, 1]])

    def test_push_rows(self):
        v, want = self.made("v", (6, 2), optimizer=psd.Momentum(0.5, 0.5))
        slot = np.zeros_like(want)
        for indices, scale in (([4, 1], 1.0), ([[4, 4], [2, 1]], 0.5), ([], 1.0)):
            rows = np.arange(np.size(indices) * 2, dtype="f4").reshape(np.shape(indices) + (2,))
            v.push_rows(indices, rows, scale)
            summed = np.zeros_like(want)
            at = np.asarray(indices, np.int64)
            np.add.at(summed, at, rows)
            touched = np.unique(at)
            slot[touched] = slot[touched] * np.float32(0.5) + summed[touched] * np.float32(scale)
            want[touched] -= np.float32(0.5) * slot[touched]
            np.testing.assert_array_equal(v.read(), want)
        asyncio.run(v.push_rows_async([0], np.zeros((1, 2), "f4")))
        self.assertEqual(v.read_versioned()[1:], (4, True))

    def test_push_pull_rows(self):
        v, want = self.made("v", (6, 2), optimizer=psd.SGD(0.5))
        for indices, scale in (([4, 1], 1.0), ([[4, 4], [2, 1]], 0.5), ([], 1.0)):
            rows = np.arange(np.size(indices) * 2, dtype="f4").reshape(np.shape(indices) + (2,))
            at = np.asarray(indices, np.int64)
            np.subtract.at(want, at, rows * np.float32(0.5 * scale))
            np.testing.assert_array_equal(v.push_pull_rows(indices, rows, scale=scale), want[at])
            np.testing.assert_array_equal(v.read(), want)
        rows = np.ones((2, 2), "f4")
        self.assertIs(v.push_pull_rows([5, 0], rows, rows), rows)
        want[[5, 0]] -= np.float32(0.5)
        np.testing.assert_array_equal(rows, want[[5, 0]])
        np.testing.assert_array_equal(asyncio.run(v.push_pull_rows_async([0], np.zeros((1, 2), "f4"))), want[[0]])
        with self.assertRaisesRegex(psd.OutOfRange, "'v': index 6"):
            v.push_pull_rows([6], np.ones((1, 2), "f4"))
        with self.assertRaisesRegex(ValueError, r"out for 'v' is float32 \[2, 2\], and must be float32 \[1, 2\]"):
            v.push_pull_rows([1], np.ones((1, 2), "f4"), rows)

    def test_scatter(self):
        for dtype in ("float32", "int32", "int8"):
            v, want = self.made("v_" + dtype, (4, 2), dtype)
            indices, rows = np.array([3, 0, 3]), np.array([[1, 2], [3, 4], [100, 100]], dtype)
            v.scatter_add(indices, rows)
            np.add.at(want, indices, rows)
            np.testing.assert_array_equal(v.read(), want)
            v.scatter_sub(indices, rows[::-1])
            np.subtract.at(want, indices, rows[::-1])
            np.testing.assert_array_equal(v.read(), want)
            v.scatter_update([1, 2, 1], rows)
            want[[1, 2, 1]] = rows
            np.testing.assert_array_equal(v.read(), want)

    def test_input_is_named(self):
        v, want = self.made("v", (5, 3), optimizer=psd.SGD(1))
        one = np.ones((1, 3), "f4")
        for index in (-1, 5):
            with self.assertRaisesRegex(IndexError, rf"'v': index {index}, number 1 of 2, is outside \[0, 5\)"):
                v.gather([0, index])
            for call in (v.push_rows, v.scatter_add, v.scatter_sub, v.scatter_update):
                with self.assertRaisesRegex(psd.OutOfRange, f"index {index}"):
                    call([0, index], np.ones((2, 3), "f4"))
        with self.assertRaisesRegex(IndexError, "'v' have 18446744073709551615"):
            v.gather(np.array([2**64 - 1], "u8"))
        for indices, said in (([0.5], r"float64 \[1\]"), ([[True]], r"bool \[1, 1\]"), (np.zeros(0, "f4"), r"float32 \[0\]"), ("a", "str")):
            with self.assertRaisesRegex(ValueError, f"indices for 'v' are {said}.*must be integers"):
                v.gather(indices)
        for wrong in (np.ones(3, "f4"), np.ones((2, 3), "f4"), np.ones((1, 3)), np.ones((1, 4), "f4")):
            with self.assertRaises(ValueError) as e:
                v.push_rows([1], wrong)
            self.assertIn(f"for 'v' is {wrong.dtype} {list(wrong.shape)}, and must be float32 [1, 3]", str(e.exception))
        with self.assertRaisesRegex(ValueError, r"out for 'v' is float32 \[1, 3\], and must be float32 \[2, 3\]"):
            v.gather([1, 2], one)
        np.testing.assert_array_equal(v.read(), want)
        for name, shape, dtype in (("scalar", (), "float32"), ("strings", 3, "string")):
            with self.assertRaisesRegex(psd.InvalidArgument, f"'{name}'.* has no rows"):
                self.session.variable(name, shape, dtype).gather(0)
        with self.assertRaisesRegex(psd.FailedPrecondition, "no value yet"):
            self.session.variable("empty", (5, 3), optimizer=psd.SGD(1)).gather([1])
        with self.assertRaisesRegex(psd.Unimplemented, "lazy_adam"):
            self.session.make("adam", (2000000, 3), psd.zeros(), psd.Adam()).push_rows([1], one)
        with self.assertRaisesRegex(psd.FailedPrecondition, "optimizer"):
            self.session.make("none", (5, 3)).push_rows([1], one)


class Sums(unittest.TestCase):
    """Sparse accumulators against NumPy."""

    def setUp(self):
        self.cluster = psd.local_cluster(ps=2)
        self.addCleanup(self.cluster.stop)
        self.session = psd.Session(self.cluster.target, timeout=20)
        self.addCleanup(self.session.close)

    def test_reductions(self):
        gradients = (([[3, 1], [3, 0]], 1.0), ([3], 2.0), ([], 0.0))
        for reduction in ("mean", "sum", "mean_of_all"):
            a = self.session.sparse_accumulator("sums_" + reduction, (5, 2), reduction=reduction)
            total, counts = np.zeros((5, 2), "f4"), np.zeros(5, "i8")
            for indices, value in gradients:
                rows = np.full(np.shape(indices) + (2,), value, "f4")
                self.assertTrue(a.apply_rows(indices, rows))
                np.add.at(total, np.asarray(indices, np.int64), rows)
                counts[np.unique(np.asarray(indices, np.int64))] += 1
            self.assertEqual(a.accumulated, 3)
            by = {"mean": np.maximum(counts, 1), "sum": np.ones(5), "mean_of_all": np.full(5, 3)}[reduction]
            at, rows, numbers, taken = a.take_rows(2)
            np.testing.assert_array_equal(at, np.flatnonzero(counts))
            np.testing.assert_array_equal(numbers, counts[at])
            np.testing.assert_array_equal(rows, total[at] / by[at, None].astype("f4"))
            self.assertEqual((taken, rows.dtype), (3, np.dtype("f4")))
            self.assertFalse(a.apply_rows([0], np.ones((1, 2), "f4")))
        self.assertIn("psd.SparseAccumulator 'sums_mean_of_all' float32 [5, 2]", repr(a))
        listed = {q.name: (q.kind.name, q.reduction.name, q.step) for task in (0, 1) for q in psd.admin.queues(self.session, task)}
        self.assertEqual(listed["sums_mean_of_all"], ("SPARSE_ACCUMULATOR", "MEAN_OF_ALL", 1))

    def test_input_is_named(self):
        a = self.session.sparse_accumulator("named", (5, 2), "float64")
        with self.assertRaisesRegex(psd.OutOfRange, "'named': index 5"):
            a.apply_rows([5], np.ones((1, 2)))
        with self.assertRaisesRegex(ValueError, r"the gradient for 'named' is float32 \[1, 2\], and must be float64 \[1, 2\]"):
            a.apply_rows([1], np.ones((1, 2), "f4"))
        with self.assertRaisesRegex(psd.InvalidArgument, "is sparse"):
            a.apply(np.ones((5, 2)))
        with self.assertRaisesRegex(ValueError, "reduction is 'max'"):
            self.session.sparse_accumulator("max", (5, 2), reduction="max")
        with self.assertRaises(psd.DeadlineExceeded):
            a.take_rows(1, timeout=0.5)


class Rounds(unittest.TestCase):
    """Embeddings in rounds of two workers, against NumPy, with both kinds of mean."""

    def test_means(self):
        steps, ids = 3, ([[5, 1], [5, 5]], [[1, 2], [0, 1]])
        for mean in ("all", "those"):
            want, places, ends = np.arange(18, dtype="f4").reshape(6, 3), {}, []
            with self.subTest(mean=mean), psd.local_cluster(ps=2, workers=2) as cluster:

                def work(i, mean=mean, cluster=cluster, places=places, ends=ends):
                    with psd.Session(cluster=cluster.spec, job="worker", task=i, timeout=20, ready_timeout=30) as s:
                        e = s.embedding("e", (6, 3), psd.zeros(), psd.SGD(1), partition=psd.partition(2))
                        self.assertEqual((repr(e), e.shape), ("<psd.Embedding 'e' float32 [6, 3]>", (6, 3)))
                        s.sync()
                        s.sync_rows(4, mean=mean)
                        if s.is_chief:
                            s.find("e").init_from(np.arange(18, dtype="f4").reshape(6, 3))
                        s.ready()
                        for _ in range(steps):
                            rows, places[i] = e.pull(ids[i])
                            e.push(np.ones_like(rows))
                            s.step_done()
                        with self.assertRaisesRegex(ValueError, r"gradient for 'e' is float32 \[1, 3\], and must be float32 \[[23], 3\]"):
                            e.push(np.ones((1, 3), "f4"))
                        rows, at = e.pull(np.zeros(0, "i8"))
                        self.assertEqual((rows.shape, at.shape), ((0, 3), (0,)))
                        s.barrier("end", 2)
                        ends.append(s.find("e").read())

                threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
                for t in threads:
                    t.start()
                for t in threads:
                    t.join()
                np.testing.assert_array_equal(places[0], [[1, 0], [1, 1]])
                np.testing.assert_array_equal(places[1], [[1, 2], [0, 1]])
                for row, count in ((0, 1), (1, 2), (2, 1), (5, 1)):
                    want[row] -= np.float32(steps * (count / 2 if mean == "all" else 1))
                self.assertEqual(len(ends), 2)
                for end in ends:
                    np.testing.assert_array_equal(end, want)
        with psd.local_cluster() as cluster, psd.Session(cluster.target) as s:
            for rows, mean, said in ((0, "all", "rows_per_step is 0"), (1 << 32, "all", "4294967296"), (1, "some", "mean is 'some'")):
                with self.assertRaisesRegex(psd.InvalidArgument, said):
                    s.sync_rows(rows, mean=mean)


class Parts(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=2)
        self.addCleanup(self.cluster.stop)
        self.session = psd.Session(self.cluster.target, timeout=20, seed=3)
        self.addCleanup(self.session.close)

    def test_parts_are_a_variable(self):
        s = self.session
        with s.container("whole"):
            whole = s.make("w", (7, 4), psd.uniform(-1, 1)).read()
        for layout, first in (("div", [0, 1, 2]), ("mod", [0, 3, 6])):
            with self.subTest(layout=layout), s.container(layout):
                v = s.variable("w", (7, 4), init=psd.uniform(-1, 1), optimizer=psd.SGD(1), partition=psd.partition(3, layout=layout))
                v.initialize()
                np.testing.assert_array_equal(v.read(), whole)
                parts = v.parts
                self.assertEqual([(p.name, p.shape) for p in parts], [("w/part_0", (3, 4)), ("w/part_1", (2, 4)), ("w/part_2", (2, 4))])
                self.assertEqual({p.task for p in parts}, {0, 1})
                np.testing.assert_array_equal(parts[0].read(), whole[first])
                self.assertIn("'w' float32 [7, 4] in 3 parts", repr(v))
                gradient = np.arange(28, dtype="f4").reshape(7, 4)
                np.testing.assert_array_equal(v.push_pull(gradient), whole - gradient)
        columns = s.variable("columns", (2, 6), partition=psd.partition(2, axis=1))
        self.assertEqual([p.shape for p in columns.parts], [(2, 3), (2, 3)])
        self.assertEqual(s.variable("one", 3).parts, [])

    def test_a_parameter_in_parts(self):
        with psd.Session(self.cluster.target, container="param-parts") as s:
            p = s.param("w", (7, 4), psd.ones(), psd.SGD(1), partition=psd.partition(3))
            s.ready()
            s.pull()
            gradient = np.arange(28, dtype="f4").reshape(7, 4)
            p.push(gradient)
            s.step_done()
            s.pull()
            np.testing.assert_array_equal(p.value, 1 - gradient)
            self.assertEqual(len(s.find("w").parts), 3)
            with self.assertRaisesRegex(psd.InvalidArgument, "partition is 3"):
                s.param("v", 4, partition=3)

    def test_partitioners(self):
        for i, (partitioner, parts) in enumerate((
            (psd.fixed_size_partitioner(9), 7),
            (psd.fixed_size_partitioner(2), 2),
            (psd.variable_axis_size_partitioner(32), 4),
            (psd.variable_axis_size_partitioner(32, max_shards=3), 3),
            (psd.min_max_variable_partitioner(5, min_slice_size=28), 4),
            (psd.min_max_variable_partitioner(), 0),
        )):
            with self.subTest(partitioner=partitioner):
                self.assertEqual(len(self.session.variable(f"v{i}", (7, 4), partition=partitioner).parts), parts)
        self.assertEqual(repr(psd.partition(2)), "psd.partition(parts=2, axis=0, layout='div')")
        with self.assertRaisesRegex(psd.InvalidArgument, r"9 parts of shape \(7, 2\) along axis 0, allowed is 1 to 7"):
            self.session.variable("many", (7, 2), partition=psd.partition(9))
        with self.assertRaisesRegex(psd.InvalidArgument, r"partition is 3, and must be .*psd.partition\(4\)"):
            self.session.variable("number", (7, 2), partition=3)
        for wrong, said in (({"parts": -1}, "-1 must be at least 0"), ({"parts": 1 << 32}, "less than 2"), ({"parts": 1, "axis": 8}, "axis is 8"),
                            ({"parts": 1, "layout": "x"}, "layout is 'x'")):
            with self.assertRaisesRegex(ValueError, said):
                psd.partition(**wrong)


class Gradients(unittest.TestCase):
    def setUp(self):
        self.cluster = psd.local_cluster(ps=1)
        self.addCleanup(self.cluster.stop)

    def test_sums_and_limits(self):
        with psd.Session(self.cluster.target, timeout=20) as s:
            v = s.param("v", (2, 2), psd.zeros(), psd.SGD(1))
            w = s.param("w", 3, psd.zeros(), psd.SGD(1))
            s.ready()
            a, b = np.array([[3, 0], [0, 4]], "f4"), np.array([0, 12, 0], "f4")
            v.accumulate(a, 0.5)
            v.grad = 3 * a
            v.accumulate(share=0.5)
            v.push()
            self.assertEqual(w.clip_norm(1.0), 0.0)
            w.grad = b
            self.assertEqual(w.clip_norm(3.0), 12.0)
            w.push()
            s.step_done()
            s.pull()
            np.testing.assert_array_equal(v.value, -2 * a)
            np.testing.assert_allclose(w.value, -b / 4, rtol=1e-6)
            v.grad, w.grad = a, b
            self.assertEqual(psd.clip_global_norm([v, w], 26.0), 13.0)
            self.assertEqual(psd.clip_global_norm([v, w], 6.5), 13.0)
            s.push(v, w)
            s.step_done()
            s.pull()
            np.testing.assert_allclose(v.value, -2.5 * a, rtol=1e-6)
            np.testing.assert_allclose(w.value, -0.75 * b, rtol=1e-6)
            self.assertEqual(psd.clip_global_norm([], 1.0), 0.0)
            with psd.Session(self.cluster.target, container="other") as other:
                x = other.param("x", 3, psd.zeros(), psd.SGD(1))
                with self.assertRaisesRegex(psd.InvalidArgument, "'x' is of another session than 'v'"):
                    psd.clip_global_norm([v, x], 1.0)

    def test_refusals_end_the_session(self):
        for call, said in (
            (lambda p: p.accumulate(share=float("nan")), "'w': share nan"),
            (lambda p: p.clip_norm(0.0), "max_norm 0"),
            (lambda p: psd.clip_global_norm([p], float("inf")), "max_norm inf"),
        ):
            with psd.Session(self.cluster.target, timeout=20) as s:
                w = s.param("w", 3, psd.zeros(), psd.SGD(1))
                s.ready()
                with self.assertRaisesRegex(ValueError, said):
                    call(w)
                with self.assertRaisesRegex(ValueError, said):
                    s.pull()


if __name__ == "__main__":
    unittest.main()
