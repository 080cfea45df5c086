// SPDX-License-Identifier: BSD-2-Clause
/* The other half of place_plt.c. */
void tiny_a(void), tiny_b(void), tiny_c(void), tiny_d(void);

void tiny_a(void)
{
}
void tiny_b(void)
{
}
void tiny_c(void)
{
}
void tiny_d(void)
{
}
