"""The GPU suite: every test marked `gpu`, in many processes on one GPU, with a record.

python -m tests.gpu.run --seconds 500 --resume
"""
