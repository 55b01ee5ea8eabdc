// Rounding of weights to MXFP4, with the error it costs; the definition is reference.py.
//
// Both candidate scales of a block are tried in float64, where every difference and its square are exact. The
// inner loop has no branch and no table, so that the compiler makes vectors of it.
#include "../native/whimbrel.h"

#include <cstring>

namespace whimbrel::WHIMBREL_VARIANT {

namespace {

constexpr int kBlock = 32;
constexpr int kLanes = 8;

double power(int exponent) {
    const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
}

int within(int exponent) {
    return exponent < -127 ? -127 : exponent > 127 ? 127 : exponent;
}

struct Tried {
    double error;    // squared, in units of the scale squared
    double largest;  // in units of the scale
};

// The magnitudes of a block at 2^exponent: steps of 0.5, 0.5, 0.5, 0.5, 1, 1, 2 at the midpoints. A tie goes to
// the even code, so the midpoint itself belongs to the upper code where that one is even.
Tried attempt(const float* block, int exponent, double* magnitudes) {
    const double factor = power(-exponent);
    double error[kLanes] = {0}, largest[kLanes] = {0};
    for (int i = 0; i < kBlock; i += kLanes)
        for (int j = 0; j < kLanes; ++j) {
            const double scaled = static_cast<double>(block[i + j]) * factor;
            const double size = __builtin_fabs(scaled);
            double magnitude = size > 0.25 ? 0.5 : 0.0;
            magnitude += size >= 0.75 ? 0.5 : 0.0;
            magnitude += size > 1.25 ? 0.5 : 0.0;
            magnitude += size >= 1.75 ? 0.5 : 0.0;
            magnitude += size > 2.5 ? 1.0 : 0.0;
            magnitude += size >= 3.5 ? 1.0 : 0.0;
            magnitude += size > 5.0 ? 2.0 : 0.0;
            magnitudes[i + j] = magnitude;
            const double difference = __builtin_fabs(magnitude - size);
            error[j] += difference * difference;
            largest[j] = difference > largest[j] ? difference : largest[j];
        }
    Tried tried = {0.0, 0.0};
    for (int j = 0; j < kLanes; ++j) {
        tried.error += error[j];
        tried.largest = largest[j] > tried.largest ? largest[j] : tried.largest;
    }
    return tried;
}

// Code by twice the magnitude.
constexpr uint8_t kCode[13] = {0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7};

uint8_t code_of(float weight, double magnitude) {
    const uint8_t code = kCode[static_cast<int>(2.0 * magnitude)];
    return static_cast<uint8_t>(code | (weight < 0 && code ? 8 : 0));
}

}  // namespace

void mxfp4_quantise(const float* w, int64_t blocks, uint8_t* packed, uint8_t* scales, double* error, int* failed) {
    double squared = 0.0, worst = 0.0;
    for (int64_t b = 0; b < blocks; ++b) {
        const float* block = w + b * kBlock;
        uint32_t bits[kBlock];
        std::memcpy(bits, block, sizeof bits);
        uint32_t top = 0;
        for (int i = 0; i < kBlock; ++i) {
            const uint32_t size = bits[i] & 0x7fffffffu;
            top = size > top ? size : top;
        }
        if (top >= 0x7f800000u) {
            *failed = 1;
            return;
        }
        float size;
        std::memcpy(&size, &top, 4);
        // As a double no float is subnormal, so that the exponent stands in its bits.
        const double wide = size;
        uint64_t form;
        std::memcpy(&form, &wide, 8);
        const int low = top ? static_cast<int>(form >> 52) - 1023 - 2 : -127;
        const int first = within(low), second = within(low + 1);
        double one[kBlock], two[kBlock];
        const Tried near = attempt(block, first, one), far = attempt(block, second, two);
        const double near_error = near.error * power(2 * first), far_error = far.error * power(2 * second);
        const bool better = far_error < near_error;
        const int exponent = better ? second : first;
        const double* magnitudes = better ? two : one;
        squared += better ? far_error : near_error;
        const double apart = (better ? far.largest : near.largest) * power(exponent);
        worst = apart > worst ? apart : worst;
        for (int i = 0; i < kBlock / 2; ++i)
            packed[b * (kBlock / 2) + i] =
                static_cast<uint8_t>(code_of(block[2 * i], magnitudes[2 * i]) |
                                     code_of(block[2 * i + 1], magnitudes[2 * i + 1]) << 4);
        scales[b] = static_cast<uint8_t>(exponent + 127);
    }
    error[0] = squared;
    error[1] = worst;
}

}  // namespace whimbrel::WHIMBREL_VARIANT
