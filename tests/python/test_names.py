# SPDX-License-Identifier: Apache-2.0
"""Every public function of the C headers is used by the package, or has a line here that says why not."""

import os
import re
import unittest
from fnmatch import fnmatchcase

from psd import _abi, _library

PACKAGE = os.path.dirname(_library.__file__)
WITHOUT = {
    "arrays and layers come from NumPy and PyTorch": "ps_tensor_* ps_nn_* ps_dense* ps_sparse_* ps_relu* ps_sigmoid* ps_tanh* ps_dropout* "
    "ps_softmax_xent ps_argmax_count ps_add ps_gelu* ps_huber_error ps_layer_norm* ps_mean_*_error ps_embedding "
    "ps_embedding_backward ps_embedding_bag* ps_fm* ps_dot_interaction*",
    "in rounds it does nothing, and without rounds Variable.gather_async() reads ahead": "ps_embedding_ahead",
    "a Python task runs no calls: C calls it on threads of its own, which would wait for the GIL": "ps_ops_* psd_call_*",
    "Plan.row() and the operators of Value make the row of any operation by its name": "ps_plan_add ps_plan_sub ps_plan_mul ps_plan_div "
    "ps_plan_matmul ps_plan_relu ps_plan_sigmoid ps_plan_tanh ps_plan_softmax ps_plan_reduce_* ps_plan_argmax ps_plan_split ps_plan_concat "
    "ps_plan_stack ps_plan_print ps_plan_*_backward ps_plan_dense* ps_plan_dropout ps_plan_identity ps_plan_cast ps_plan_softmax_xent ps_plan_name",
    "callbacks on the loop thread would wait for the GIL: the _async methods make the blocking call on a thread": "ps_*_start",
    "PS_PROGRESS_CALLER: a Python program cannot drive the session often enough": "ps_progress_*",
    "another function of the header does the same, and the package uses that one": "ps_barrier ps_param_get ps_adagrad ps_adam ps_optimizer_standard "
    "ps_variable_read_slot ps_variable_push_pull ps_plan_eval psd_server_join psd_server_create_local ps_tuple_clear",
    "Python's own ssl and hashlib may have begun to use the process's OpenSSL: its allocator is theirs": "ps_wipe_freed psd_server_wipe_freed",
    "Python has it: shapes, dtypes, names of enums, dicts, exceptions": "ps_shape_* ps_dtype_* ps_status_name ps_reason_* ps_param_shape "
    "ps_param_session ps_param_fail ps_plan_session ps_step_values_find ps_variable_info_whole",
}


class Names(unittest.TestCase):
    def test_every_function(self):
        text = ""
        for name in sorted(os.listdir(PACKAGE)):
            if name.endswith(".py") and name != "_abi.py":
                with open(os.path.join(PACKAGE, name), encoding="utf-8") as source:
                    text += source.read()
        used = set(re.findall(r"\b_?(?:lib|library|loaded)\.(psd?_\w+)", text)) | {f"ps_{n}_init" for n in _library.INITS.split()}
        patterns = " ".join(WITHOUT.values()).split()
        left = [f for f in _abi.FUNCTIONS if f not in used and not any(fnmatchcase(f, p) for p in patterns)]
        self.assertEqual(left, [], "use them in worker/python/psd, or say above why not")
        self.assertEqual(sorted(used - set(_abi.FUNCTIONS)), [], "the headers do not have them")

    def test_no_line_is_left_over(self):
        for pattern in " ".join(WITHOUT.values()).split():
            self.assertTrue(any(fnmatchcase(f, pattern) for f in _abi.FUNCTIONS), pattern)


if __name__ == "__main__":
    unittest.main()
