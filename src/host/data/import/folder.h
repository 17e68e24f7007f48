/* Lists folders of images that have one folder for each class, like ImageNet and most collections:
 *
 *     SRC/train/CLASS/name.jpg     SRC/val/CLASS/name.png      or test, valid, validation
 *     SRC/CLASS/name.jpg           without a training part: the test set is a share of all
 *
 * Classes are the folders, in byte order of their names. Images are the files that end in .jpg,
 * .jpeg or .png, in upper or lower case, and are in byte order too. Other files are counted and
 * left out. */
#ifndef KAS_DATA_IMPORT_FOLDER_H
#define KAS_DATA_IMPORT_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "host/core/status.h"

typedef struct kas_file_list {
    char **path;     /* [count] owned */
    uint16_t *label; /* [count] */
    uint32_t count;
} kas_file_list;

typedef struct kas_folder {
    char **class_name; /* [classes] owned */
    uint32_t classes;
    kas_file_list train, test; /* test is empty when the folder has no test part */
    uint32_t others;           /* files left out */
} kas_folder;

/* Lists the images. Fails with KAS_BAD_INPUT and names the folder and what was expected. The caller
 * calls kas_folder_free, also after a failure. */
kas_status kas_folder_scan(const char *source, kas_folder *out);
void kas_folder_free(kas_folder *folder);

/* Keeps entries whose `keep` is set, in their order. */
void kas_file_list_keep(kas_file_list *list, const uint8_t *keep);
/* Moves entries whose `move` is set to the end of `to`. */
kas_status kas_file_list_move(kas_file_list *list, const uint8_t *move, kas_file_list *to);
/* Shuffles the list by `seed`. */
void kas_file_list_shuffle(kas_file_list *list, uint64_t seed);

#endif
