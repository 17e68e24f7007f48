/* A network with every epilogue that a convolution can have. */
#ifndef KAS_TESTS_UNIT_MODEL_EPILOGUES_NET_H
#define KAS_TESTS_UNIT_MODEL_EPILOGUES_NET_H

/* Every activation; a stride; a sum with and without a ReLU; a sum whose other input comes later;
 * outputs that are parts of a concatenation, and a residual that is one; odd channels; and at last
 * a convolution that a ReLU reads beside the batch norm, which therefore has no epilogue. */
static const char epilogues_net[] =
    "{\"format\": \"kas-gpu network\", \"version\": 1, \"name\": \"edges\", \"layers\": ["
    "{\"conv\": \"c0\", \"channels\": 12, \"kernel\": 3}, {\"batch_norm\": \"b0\"},"
    "{\"relu\": \"a0\"},"
    "{\"conv\": \"c1\", \"channels\": 12, \"kernel\": 3}, {\"batch_norm\": \"b1\"},"
    "{\"relu6\": \"a1\"},"
    "{\"conv\": \"c2\", \"channels\": 18, \"kernel\": 3, \"stride\": 2}, {\"batch_norm\": \"b2\"},"
    "{\"silu\": \"a2\"},"
    "{\"conv\": \"c3\", \"channels\": 18, \"kernel\": 1}, {\"batch_norm\": \"b3\"},"
    "{\"hard_swish\": \"a3\"},"
    "{\"conv\": \"c4\", \"channels\": 18, \"kernel\": 3}, {\"batch_norm\": \"b4\"},"
    "{\"gelu\": \"a4\"},"
    "{\"conv\": \"c5\", \"channels\": 18, \"kernel\": 3}, {\"batch_norm\": \"b5\"},"
    "{\"sigmoid\": \"a5\"},"
    "{\"conv\": \"c6\", \"channels\": 18, \"kernel\": 3}, {\"batch_norm\": \"b6\"},"
    "{\"add\": \"s6\", \"from\": [\"b6\", \"a4\"]}, {\"hard_sigmoid\": \"a6\"},"
    "{\"conv\": \"c7\", \"channels\": 18, \"kernel\": 3}, {\"batch_norm\": \"b7\"},"
    "{\"conv\": \"c8\", \"channels\": 18, \"kernel\": 1, \"from\": \"a5\"},"
    "{\"batch_norm\": \"b8\"}, {\"add\": \"s8\", \"from\": [\"b7\", \"b8\"]}, {\"relu\": \"a8\"},"
    "{\"conv\": \"c9\", \"channels\": 18, \"kernel\": 3}, {\"batch_norm\": \"b9\"},"
    "{\"relu\": \"a9\"}, {\"concat\": \"cat\", \"from\": [\"a9\", \"a8\"]},"
    "{\"relu\": \"r9\"}, {\"conv\": \"c10\", \"channels\": 36, \"kernel\": 3}, {\"batch_norm\": "
    "\"b10\"},"
    "{\"add\": \"s10\", \"from\": [\"b10\", \"cat\"]}, {\"relu\": \"a10\"},"
    "{\"concat\": \"wide\", \"from\": [\"cat\", \"a10\"]},"
    "{\"conv\": \"c11\", \"channels\": 9, \"kernel\": 1}, {\"batch_norm\": \"b11\"},"
    "{\"hard_sigmoid\": \"a11\"},"
    "{\"conv\": \"c12\", \"channels\": 9, \"kernel\": 3}, {\"relu\": \"r12\"},"
    "{\"batch_norm\": \"b12\", \"from\": \"c12\"}, {\"relu\": \"a12\"},"
    "{\"add\": \"s12\", \"from\": [\"a12\", \"r12\"]},"
    "{\"global_avg_pool\": \"pool\"}, {\"linear\": \"fc\", \"channels\": \"classes\"}]}";

#endif
