// SPDX-License-Identifier: BSD-2-Clause
int dso_answer(void);

int dso_answer(void)
{
	return 42;
}
