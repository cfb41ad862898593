"""mpi4py: device memory goes to MPI as it is, as its addresses are the host's.

mpirun -n 2 ptxjit exec -- python mpi_program.py
"""

import numpy as np
import ptxjit
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
assert size >= 2

mine = ptxjit.full(1000, float(rank + 1))
total = ptxjit.zeros(1000)
# No copy to the host: MPI reads and writes the memory that kernels use.
world.Allreduce([mine.memoryview(), MPI.FLOAT], [total.memoryview(), MPI.FLOAT], op=MPI.SUM)
np.testing.assert_array_equal(total.numpy(), np.full(1000, size * (size + 1) / 2, np.float32))

following, preceding = (rank + 1) % size, (rank - 1) % size
halo = ptxjit.zeros(1000)
world.Sendrecv([mine.memoryview(), MPI.FLOAT], dest=following, recvbuf=[halo.memoryview(), MPI.FLOAT], source=preceding)
np.testing.assert_array_equal(halo.numpy(), np.full(1000, preceding + 1, np.float32))
if rank == 0:
    print("mpi: fine")
