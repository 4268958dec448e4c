"""Serves a small model with llama.cpp: `llm.py MODEL PORT`."""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[2])
params.n_ctx, params.n_parallel = 2048, 1
server = xllamacpp.Server(params)
signal.pause()
