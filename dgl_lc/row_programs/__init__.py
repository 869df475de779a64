"""Operations on rows as plain data: what files of transformed models hold.

A row program is a list of steps. Each names a function of an allow-list, a
module of torch.nn, or a tensor of the model; its arguments are plain values
and results of earlier steps. A program that is read from a file is checked,
and then run step by step: no source text is made of it, and nothing is
imported or looked up by a name that the file chooses.
"""
