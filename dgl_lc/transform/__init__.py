"""The automatic LC transformation: any DGL model, or a clear error.

``lc_transform`` (transform_model.py) is a list of steps. Read them in this
order; every file begins with what it does:

1. The call is read, and probes that resemble it are made: options.py,
   tracing/model_call.py, tracing/probes.py.
2. The model runs on probes, and what it does is recorded as a
   ``Trace`` (tracing/values.py): tracing/trace_model.py. The tracer has four
   layers: recorder.py (which tensor is which value), torch_tracer.py with its
   rules for functions of torch, graph_tracer.py and message_tracer.py for DGL,
   whose functions dgl_hooks.py replaces meanwhile.
3. The traces are compared and become one: training_dropout.py,
   compare_traces.py.
4. Messages become filters and operations on nodes: rewrite_messages.py, with
   message_terms.py, terms.py, end_products.py, edge_columns.py and
   picked_edges.py.
5. The trace is simplified: joined_rows.py, simplify.py. Static values are
   evaluated on graphs by evaluate.py.
6. Filters are pushed to the inputs: push.py. It asks recognise.py what an
   operation is, find_filters.py and polynomials.py what a filter is, and
   equal_words.py which words (filter_words.py) are equal. input_basis.py needs
   as few inputs as can be. The result is a ``Pushed`` (pushed.py),
   which does not change and which all later steps read.
7. The inputs get names, the module is emitted: model_inputs.py, emit.py,
   lc_module.py.
8. All of it is checked: check_trace.py (the trace), check.py (the LC version,
   with linearise.py and permutations.py).
9. The report is made, with names of filters: report.py, describe_filters.py.
   The result is an :class:`LCVersion`: lc_version.py.

After the transformation, ``lc.precompute`` leads to precompute_inputs.py, or
to on_disk/precompute_steps.py; ``lc.drift`` to measure_drift.py; ``lc.draw`` to
drawing/draw_lc.py.

Where a step refuses a model (refusals.py, causes.py), collect_problems.py
traces it again and finds all problems: find_roots.py the values that have
them, name_causes.py what the author can change, problem_order.py which come
first. ``lc_explain`` (explain_model.py) returns them.
"""

from .explain_model import lc_explain
from .lc_version import LCVersion
from .refusals import LCError
from .transform_model import lc_transform

__all__ = ["lc_explain", "lc_transform", "LCError", "LCVersion"]
