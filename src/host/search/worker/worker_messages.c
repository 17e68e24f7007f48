/* Converts measurements and epochs to messages between worker and supervisor and back. */
#include "host/search/worker/channel.h"
#include "host/search/worker/worker.h"

/* The fields are listed once, so that both ends agree. */
#define MEASURED_FIELDS(X)                                                                         \
    X(accuracy)                                                                                    \
    X(latency)                                                                                     \
    X(latency_iqr)                                                                                 \
    X(step_seconds)                                                                                \
    X(compile_seconds)                                                                             \
    X(memory)                                                                                      \
    X(output_std_min) X(output_std_max) X(ratio) X(ratio_low) X(ratio_high) X(missed)

cJSON *kas_measured_message(const char *type, const kas_measured *measured)
{
    cJSON *message = kas_message(type);
#define PUT(field) kas_message_number(message, #field, measured->field);
    MEASURED_FIELDS(PUT)
#undef PUT
    return message;
}

kas_measured kas_measured_from(const cJSON *message)
{
    kas_measured out;
#define GET(field) out.field = kas_message_get_number(message, #field);
    MEASURED_FIELDS(GET)
#undef GET
    return out;
}

void kas_epoch_put(cJSON *message, const kas_epoch *epoch)
{
    kas_message_number(message, "epoch", epoch->epoch);
    kas_message_number(message, "train_loss", epoch->train_loss);
    kas_message_number(message, "train_accuracy", epoch->train_accuracy);
    kas_message_number(message, "validation_loss", epoch->validation_loss);
    kas_message_number(message, "validation_accuracy", epoch->validation_accuracy);
    kas_message_number(message, "seconds", epoch->seconds);
}

kas_epoch kas_epoch_from(const cJSON *message)
{
    double number = kas_message_get_number(message, "epoch");
    return (kas_epoch){.epoch = number >= 0 && number < 1e9 ? (int)number : -1,
                       .train_loss = kas_message_get_number(message, "train_loss"),
                       .train_accuracy = kas_message_get_number(message, "train_accuracy"),
                       .validation_loss = kas_message_get_number(message, "validation_loss"),
                       .validation_accuracy =
                           kas_message_get_number(message, "validation_accuracy"),
                       .seconds = kas_message_get_number(message, "seconds")};
}
