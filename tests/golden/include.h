#define INCLUDED 3
