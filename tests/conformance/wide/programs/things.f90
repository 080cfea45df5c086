! SPDX-License-Identifier: BSD-2-Clause
program things
  implicit none
  integer :: i, j
  real(8) :: a(50, 50), b(50, 50), s
  complex(8) :: z
  character(20) :: text
  do j = 1, 50
    do i = 1, 50
      a(i, j) = mod(i * j, 7) + 0.5d0
      b(i, j) = i + j
    end do
  end do
  s = sum(matmul(a, b))
  z = (0.1d0, 0.2d0)
  do i = 1, 100
    z = z * z + 0.3d0
  end do
  write (text, '(i6.4)') 42
  print '(f12.3,2f10.6,a)', s, z, trim(text)
  open (10, file='scratch', form='unformatted', access='stream')
  write (10) a
  rewind (10)
  read (10) b
  close (10, status='delete')
  print *, all(a == b), maxloc(a(:, 7))
  stop 5
end program
