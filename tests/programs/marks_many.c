// SPDX-License-Identifier: BSD-2-Clause
// One instruction writes each byte of a table once.
enum { SIZE = 17000 };

volatile char table[SIZE];

int main(void)
{
	for (int i = 0; i < SIZE; i++)
		table[i] = 1;
	return 0;
}
