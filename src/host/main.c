#include "host/cli/cli.h"

int main(int argc, char **argv)
{
    return kas_cli_main(argc, argv);
}
