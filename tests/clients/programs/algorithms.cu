// Algorithms of Thrust and CUB against those of the C++ library.

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

using Ints = std::vector<int>;
using Device = thrust::device_vector<int>;

static int failed = 0;

static void check(const char *what, const Device &got, const Ints &want)
{
    Ints host(got.size());
    thrust::copy(got.begin(), got.end(), host.begin());
    if (host != want) {
        std::printf("%s differs\n", what);
        failed++;
    }
}

struct IsOdd {
    __host__ __device__ bool operator()(int x) const { return x & 1; }
};

// Asks CUB for the room that an algorithm needs, and runs it there.
template <class Algorithm> static void run(Algorithm algorithm)
{
    size_t bytes = 0;
    cudaError_t error = algorithm(nullptr, bytes);
    thrust::device_vector<char> room(bytes + 1);
    if (error == cudaSuccess) error = algorithm(thrust::raw_pointer_cast(room.data()), bytes);
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    if (error != cudaSuccess) {
        std::printf("%s\n", cudaGetErrorString(error));
        failed++;
    }
}

int main()
{
    const int n = 30011;
    std::mt19937 random(7);
    Ints numbers(n), keys(n), places(n);
    for (int i = 0; i < n; i++) {
        numbers[i] = int(random() % 20001) - 10000;
        keys[i] = i / 37;
        places[i] = i;
    }
    const Device device(numbers.begin(), numbers.end());
    const Device device_keys(keys.begin(), keys.end());

    Device sorted = device, moved(places.begin(), places.end());
    thrust::stable_sort_by_key(sorted.begin(), sorted.end(), moved.begin());
    std::stable_sort(places.begin(), places.end(), [&](int a, int b) { return numbers[a] < numbers[b]; });
    Ints in_order = numbers;
    std::sort(in_order.begin(), in_order.end());
    check("stable_sort_by_key, keys", sorted, in_order);
    check("stable_sort_by_key, values", moved, places);

    Ints sums(n);
    std::partial_sum(numbers.begin(), numbers.end(), sums.begin());
    Device scanned(n);
    thrust::inclusive_scan(device.begin(), device.end(), scanned.begin());
    check("inclusive_scan", scanned, sums);

    sorted.erase(thrust::unique(sorted.begin(), sorted.end()), sorted.end());
    in_order.erase(std::unique(in_order.begin(), in_order.end()), in_order.end());
    check("unique", sorted, in_order);

    Device odd(n);
    odd.resize(thrust::copy_if(device.begin(), device.end(), odd.begin(), IsOdd()) - odd.begin());
    Ints want;
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(want), IsOdd());
    check("copy_if", odd, want);

    Ints of_keys((n + 36) / 37), starts(1);
    for (int i = 0; i < n; i++) of_keys[keys[i]] += numbers[i];
    Device distinct(n), reduced(n);
    auto ends = thrust::reduce_by_key(device_keys.begin(), device_keys.end(), device.begin(), distinct.begin(),
                                      reduced.begin());
    reduced.resize(ends.second - reduced.begin());
    check("reduce_by_key", reduced, of_keys);

    for (int key = 1; key < int(of_keys.size()); key++) starts.push_back(37 * key);
    starts.push_back(n);
    const Device offsets(starts.begin(), starts.end());
    Device segments(of_keys.size());
    const int *in = thrust::raw_pointer_cast(device.data()), *from = thrust::raw_pointer_cast(offsets.data());
    int *out = thrust::raw_pointer_cast(segments.data());
    run([&](void *room, size_t &bytes) {
        return cub::DeviceSegmentedReduce::Sum(room, bytes, in, out, int(of_keys.size()), from, from + 1);
    });
    check("DeviceSegmentedReduce", segments, of_keys);

    // Five bits decide; equal ones keep their order.
    Device by_bits(n);
    int *bits = thrust::raw_pointer_cast(by_bits.data());
    run([&](void *room, size_t &bytes) {
        return cub::DeviceRadixSort::SortKeysDescending(room, bytes, in, bits, n, 3, 8);
    });
    std::stable_sort(numbers.begin(), numbers.end(), [](int a, int b) { return (a >> 3 & 31) > (b >> 3 & 31); });
    check("DeviceRadixSort", by_bits, numbers);

    if (!failed) std::puts("algorithms: fine");
    return failed != 0;
}
