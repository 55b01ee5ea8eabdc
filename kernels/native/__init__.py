"""The kernels in C++: their build, and the library in use."""
