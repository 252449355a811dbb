// A search takes and gives back so much memory that it is an eighth faster with this than with the C
// library's.
#include <mimalloc-new-delete.h>
