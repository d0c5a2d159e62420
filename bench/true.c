/* The smallest program: what is left of a measurement is the sandbox. */
int main(void)
{
    return 0;
}
