/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The opcode maps of VEX and XOP: for each opcode its operand form (insn-forms.def), by mandatory
 * prefix and W. Data only; an empty place is an invalid opcode. Columns of VEX:
 *   none.W0, none.W1,  66.W0, 66.W1,  F3.W0, F3.W1,  F2.W0, F2.W1
 */
#include "arch/x86_64/insn-table.h"

/* clang-format off */
enum {
	_ = 0,
#define DP_FORM(name, ml, rl, mr, rr, imm, flags) name = DP_FORM_##name,
#include "arch/x86_64/insn-forms.def"
#undef DP_FORM
};

const u8 dp_vex_0f[256][8] = {
	[0x10 ... 0x11] = {U, U,  U, U,  X, X,  X, X},                        /* vmovups vmovupd vmovss ... */
	[0x12] = {V1, V1,  Vm1, Vm1,  U, U,  U, U},                           /* vmovhlps vmovlpd vmovsldup ... */
	[0x13] = {Um1, Um1,  Um1, Um1},                                       /* vmovlps vmovlpd */
	[0x14 ... 0x15] = {V, V,  V, V},                                      /* vunpcklps vunpcklpd ... */
	[0x16] = {V1, V1,  Vm1, Vm1,  U, U},                                  /* vmovlhps vmovhpd vmovshdup */
	[0x17] = {Um1, Um1,  Um1, Um1},                                       /* vmovhps vmovhpd */
	[0x28 ... 0x29] = {U, U,  U, U},                                      /* vmovaps vmovapd vmovaps ... */
	[0x2a] = {_, _,  _, _,  V, V,  V, V},                                 /* vcvtsi2ss vcvtsi2sd */
	[0x2b] = {Um, Um,  Um, Um},                                           /* vmovntps vmovntpd */
	[0x2c ... 0x2d] = {_, _,  _, _,  U, U,  U, U},                        /* vcvttss2si vcvttsd2si ... */
	[0x2e ... 0x2f] = {U, U,  U, U},                                      /* vucomiss vucomisd vcomiss ... */
	[0x41 ... 0x42] = {kVkr2, kVkr2,  kVkr2, kVkr2},                      /* kandw kandq kandb kandd ... */
	[0x44] = {kUr1, kUr1,  kUr1, kUr1},                                   /* knotw knotq knotb knotd */
	[0x45 ... 0x47] = {kVkr2, kVkr2,  kVkr2, kVkr2},                      /* korw korq korb kord kxnorw ... */
	[0x4a] = {kVkr2, kVkr2,  kVkr2, kVkr2},                               /* kaddw kaddq kaddb kaddd */
	[0x4b] = {kVkr2, kVkr2,  kVkr2, _},                                   /* kunpckwd kunpckdq kunpckbw */
	[0x50] = {Ur, Ur,  Ur, Ur},                                           /* vmovmskps vmovmskpd */
	[0x51] = {U, U,  U, U,  V, V,  V, V},                                 /* vsqrtps vsqrtpd vsqrtss ... */
	[0x52 ... 0x53] = {U, U,  _, _,  V, V},                               /* vrsqrtps vrsqrtss vrcpps ... */
	[0x54 ... 0x57] = {V, V,  V, V},                                      /* vandps vandpd vandnps ... */
	[0x58 ... 0x59] = {V, V,  V, V,  V, V,  V, V},                        /* vaddps vaddpd vaddss ... */
	[0x5a] = {U, U,  U, U,  V, V,  V, V},                                 /* vcvtps2pd vcvtpd2ps ... */
	[0x5b] = {U, U,  U, U,  U, U},                                        /* vcvtdq2ps vcvtps2dq ... */
	[0x5c ... 0x5f] = {V, V,  V, V,  V, V,  V, V},                        /* vsubps vsubpd vsubss ... */
	[0x60 ... 0x6d] = {_, _,  V, V},                                      /* vpunpcklbw vpunpcklwd ... */
	[0x6e] = {_, _,  U1, U1},                                             /* vmovd vmovq */
	[0x6f] = {_, _,  U, U,  U, U},                                        /* vmovdqa vmovdqu */
	[0x70] = {_, _,  Ui, Ui,  Ui, Ui,  Ui, Ui},                           /* vpshufd vpshufhw vpshuflw */
	[0x71 ... 0x72] = {_, _,  Vir_54, Vir_54},                            /* vpsrlw vpsrld */
	[0x73] = {_, _,  Vir_cc, Vir_cc},                                     /* vpsrlq */
	[0x74 ... 0x76] = {_, _,  V, V},                                      /* vpcmpeqb vpcmpeqw vpcmpeqd */
	[0x77] = {Z0, Z0},                                                    /* vzeroupper */
	[0x7c ... 0x7d] = {_, _,  V, V,  _, _,  V, V},                        /* vhaddpd vhaddps vhsubpd ... */
	[0x7e] = {_, _,  U1, U1,  U1, U1},                                    /* vmovd vmovq */
	[0x7f] = {_, _,  U, U,  U, U},                                        /* vmovdqa vmovdqu */
	[0x90] = {kU1, kU1,  kU1, kU1},                                       /* kmovw kmovq kmovb kmovd */
	[0x91] = {kUm1, kUm1,  kUm1, kUm1},                                   /* kmovw kmovq kmovb kmovd */
	[0x92] = {kUr1, _,  kUr1, _,  _, _,  kUr1, kUr1},                     /* kmovw kmovb kmovd kmovq */
	[0x93] = {Ur1, _,  Ur1, _,  _, _,  Ur1, Ur1},                         /* kmovw kmovb kmovd kmovq */
	[0x98 ... 0x99] = {kUr1, kUr1,  kUr1, kUr1},                          /* kortestw kortestq kortestb ... */
	[0xae] = {Um1_0c, Um1_0c},                                            /* vldmxcsr */
	[0xc2] = {Vi, Vi,  Vi, Vi,  Vi, Vi,  Vi, Vi},                         /* vcmpps vcmppd vcmpss ... */
	[0xc4] = {_, _,  Vi1, Vi1},                                           /* vpinsrw */
	[0xc5] = {_, _,  Uir1, Uir1},                                         /* vpextrw */
	[0xc6] = {Vi, Vi,  Vi, Vi},                                           /* vshufps vshufpd */
	[0xd0] = {_, _,  V, V,  _, _,  V, V},                                 /* vaddsubpd vaddsubps */
	[0xd1 ... 0xd5] = {_, _,  V, V},                                      /* vpsrlw vpsrld vpsrlq ... */
	[0xd6] = {_, _,  U1, U1},                                             /* vmovq */
	[0xd7] = {_, _,  Ur, Ur},                                             /* vpmovmskb */
	[0xd8 ... 0xe5] = {_, _,  V, V},                                      /* vpsubusb vpsubusw vpminub ... */
	[0xe6] = {_, _,  U, U,  U, U,  U, U},                                 /* vcvttpd2dq vcvtdq2pd ... */
	[0xe7] = {_, _,  Um, Um},                                             /* vmovntdq */
	[0xe8 ... 0xef] = {_, _,  V, V},                                      /* vpsubsb vpsubsw vpminsw ... */
	[0xf0] = {_, _,  _, _,  _, _,  Um, Um},                               /* vlddqu */
	[0xf1 ... 0xf6] = {_, _,  V, V},                                      /* vpsllw vpslld vpsllq ... */
	[0xf7] = {_, _,  Ur1, Ur1},                                           /* vmaskmovdqu */
	[0xf8 ... 0xfe] = {_, _,  V, V},                                      /* vpsubb vpsubw vpsubd ... */
};

const u8 dp_vex_0f38[256][8] = {
	[0x00 ... 0x0b] = {_, _,  V, V},                                      /* vpshufb vphaddw vphaddd ... */
	[0x0c ... 0x0d] = {_, _,  V, _},                                      /* vpermilps vpermilpd */
	[0x0e ... 0x0f] = {_, _,  U, _},                                      /* vtestps vtestpd */
	[0x13] = {_, _,  U, _},                                               /* vcvtph2ps */
	[0x16] = {_, _,  V2, _},                                              /* vpermps */
	[0x17] = {_, _,  U, U},                                               /* vptest */
	[0x18] = {_, _,  U, _},                                               /* vbroadcastss */
	[0x19] = {_, _,  U2, _},                                              /* vbroadcastsd */
	[0x1a] = {_, _,  Um2, _},                                             /* vbroadcastf128 */
	[0x1c ... 0x1e] = {_, _,  U, U},                                      /* vpabsb vpabsw vpabsd */
	[0x20 ... 0x25] = {_, _,  U, U},                                      /* vpmovsxbw vpmovsxbd ... */
	[0x28 ... 0x29] = {_, _,  V, V},                                      /* vpmuldq vpcmpeqq */
	[0x2a] = {_, _,  Um, Um},                                             /* vmovntdqa */
	[0x2b] = {_, _,  V, V},                                               /* vpackusdw */
	[0x2c ... 0x2f] = {_, _,  Vm, _},                                     /* vmaskmovps vmaskmovpd ... */
	[0x30 ... 0x35] = {_, _,  U, U},                                      /* vpmovzxbw vpmovzxbd ... */
	[0x36] = {_, _,  V2, _},                                              /* vpermd */
	[0x37 ... 0x40] = {_, _,  V, V},                                      /* vpcmpgtq vpminsb vpminsd ... */
	[0x41] = {_, _,  U1, U1},                                             /* vphminposuw */
	[0x45] = {_, _,  V, V},                                               /* vpsrlvd vpsrlvq */
	[0x46] = {_, _,  V, _},                                               /* vpsravd */
	[0x47] = {_, _,  V, V},                                               /* vpsllvd vpsllvq */
	[0x49] = {U1n_01, _,  Um1_01, _,  _, _,  kUr1n, _},                   /* tilerelease sttilecfg ... */
	[0x4b] = {_, _,  kUm1x, _,  kUm1x, _,  kUm1x, _},                     /* tileloaddt1 tilestored ... */
	[0x50 ... 0x53] = {_, _,  V, _},                                      /* vpdpbusd vpdpbusds ... */
	[0x58 ... 0x59] = {_, _,  U, _},                                      /* vpbroadcastd vpbroadcastq */
	[0x5a] = {_, _,  Um2, _},                                             /* vbroadcasti128 */
	[0x5c] = {_, _,  _, _,  tVr1, _},                                     /* tdpbf16ps */
	[0x5e] = {tVr1, _,  tVr1, _,  tVr1, _,  tVr1, _},                     /* tdpbuud tdpbusd tdpbsud ... */
	[0x78 ... 0x79] = {_, _,  U, _},                                      /* vpbroadcastb vpbroadcastw */
	[0x8c] = {_, _,  Vm, Vm},                                             /* vpmaskmovd vpmaskmovq */
	[0x8e] = {_, _,  Vm, Vm},                                             /* vpmaskmovd vpmaskmovq */
	[0x90 ... 0x93] = {_, _,  Vmxd, Vmxd},                                /* vpgatherdd vpgatherdq ... */
	[0x96 ... 0x9f] = {_, _,  V, V},                                      /* vfmaddsub132ps ... */
	[0xa6 ... 0xaf] = {_, _,  V, V},                                      /* vfmaddsub213ps ... */
	[0xb6 ... 0xbf] = {_, _,  V, V},                                      /* vfmaddsub231ps ... */
	[0xcf] = {_, _,  V, _},                                               /* vgf2p8mulb */
	[0xdb] = {_, _,  U1, U1},                                             /* vaesimc */
	[0xdc ... 0xdf] = {_, _,  V, V},                                      /* vaesenc vaesenclast ... */
	[0xf2] = {V1, V1},                                                    /* andn */
	[0xf3] = {V1_0e, V1_0e},                                              /* blsr */
	[0xf5] = {V1, V1,  _, _,  V1, V1,  V1, V1},                           /* bzhi pext pdep */
	[0xf6] = {_, _,  _, _,  _, _,  V1, V1},                               /* mulx */
	[0xf7] = {V1, V1,  V1, V1,  V1, V1,  V1, V1},                         /* bextr shlx sarx shrx */
};

const u8 dp_vex_0f3a[256][8] = {
	[0x00 ... 0x01] = {_, _,  _, Ui2},                                    /* vpermq vpermpd */
	[0x02] = {_, _,  Vi, _},                                              /* vpblendd */
	[0x04 ... 0x05] = {_, _,  Ui, _},                                     /* vpermilps vpermilpd */
	[0x06] = {_, _,  Vi2, _},                                             /* vperm2f128 */
	[0x08 ... 0x09] = {_, _,  Ui, Ui},                                    /* vroundps vroundpd */
	[0x0a ... 0x0f] = {_, _,  Vi, Vi},                                    /* vroundss vroundsd vblendps ... */
	[0x14 ... 0x17] = {_, _,  Ui1, Ui1},                                  /* vpextrb vpextrw vpextrd ... */
	[0x18] = {_, _,  Vi2, _},                                             /* vinsertf128 */
	[0x19] = {_, _,  Ui2, _},                                             /* vextractf128 */
	[0x1d] = {_, _,  Ui, _},                                              /* vcvtps2ph */
	[0x20 ... 0x22] = {_, _,  Vi1, Vi1},                                  /* vpinsrb vinsertps vpinsrd ... */
	[0x30 ... 0x33] = {_, _,  kUir1, kUir1},                              /* kshiftrb kshiftrw kshiftrd ... */
	[0x38] = {_, _,  Vi2, _},                                             /* vinserti128 */
	[0x39] = {_, _,  Ui2, _},                                             /* vextracti128 */
	[0x40] = {_, _,  Vi, Vi},                                             /* vdpps */
	[0x41] = {_, _,  Vi1, Vi1},                                           /* vdppd */
	[0x42] = {_, _,  Vi, Vi},                                             /* vmpsadbw */
	[0x44] = {_, _,  Vi, Vi},                                             /* vpclmulqdq */
	[0x46] = {_, _,  Vi2, _},                                             /* vperm2i128 */
	[0x48 ... 0x49] = {_, _,  Vi, Vi},                                    /* vpermil2ps vpermil2pd */
	[0x4a ... 0x4c] = {_, _,  Vi, _},                                     /* vblendvps vblendvpd ... */
	[0x5c ... 0x5f] = {_, _,  Vi, Vi},                                    /* vfmaddsubps vfmaddsubpd ... */
	[0x60 ... 0x63] = {_, _,  Ui1, Ui1},                                  /* vpcmpestrm vpcmpestri ... */
	[0x68 ... 0x6f] = {_, _,  Vi, Vi},                                    /* vfmaddps vfmaddpd vfmaddss ... */
	[0x78 ... 0x7f] = {_, _,  Vi, Vi},                                    /* vfnmaddps vfnmaddpd ... */
	[0xce ... 0xcf] = {_, _,  _, Vi},                                     /* vgf2p8affineqb ... */
	[0xdf] = {_, _,  Ui1, Ui1},                                           /* vaeskeygenassist */
	[0xf0] = {_, _,  _, _,  _, _,  Ui1, Ui1},                             /* rorx */
};

/* XOP has no mandatory prefixes: W0, W1. */
const u8 dp_xop8[256][2] = {
	[0x85 ... 0x87] = {Vi1, _},                                           /* vpmacssww vpmacsswd ... */
	[0x8e ... 0x8f] = {Vi1, _},                                           /* vpmacssdd vpmacssdqh */
	[0x95 ... 0x97] = {Vi1, _},                                           /* vpmacsww vpmacswd ... */
	[0x9e ... 0x9f] = {Vi1, _},                                           /* vpmacsdd vpmacsdqh */
	[0xa2] = {Vi, Vi},                                                    /* vpcmov */
	[0xa3] = {Vi1, Vi1},                                                  /* vpperm */
	[0xa6] = {Vi1, _},                                                    /* vpmadcsswd */
	[0xb6] = {Vi1, _},                                                    /* vpmadcswd */
	[0xc0 ... 0xc3] = {Ui1, _},                                           /* vprotb vprotw vprotd ... */
	[0xcc ... 0xcf] = {Vi1, _},                                           /* vpcomb vpcomw vpcomd ... */
	[0xec ... 0xef] = {Vi1, _},                                           /* vpcomub vpcomuw vpcomud ... */
};

const u8 dp_xop9[256][2] = {
	[0x01] = {V1_fe, V1_fe},                                              /* blcfill */
	[0x02] = {V1_42, V1_42},                                              /* blcmsk */
	[0x12] = {Ur1_03, Ur1_03},                                            /* llwpcb */
	[0x80 ... 0x81] = {U, _},                                             /* vfrczps vfrczpd */
	[0x82 ... 0x83] = {U1, _},                                            /* vfrczss vfrczsd */
	[0x90 ... 0x9b] = {V1, V1},                                           /* vprotb vprotw vprotd ... */
	[0xc1 ... 0xc3] = {U1, _},                                            /* vphaddbw vphaddbd vphaddbq */
	[0xc6 ... 0xc7] = {U1, _},                                            /* vphaddwd vphaddwq */
	[0xcb] = {U1, _},                                                     /* vphadddq */
	[0xd1 ... 0xd3] = {U1, _},                                            /* vphaddubw vphaddubd ... */
	[0xd6 ... 0xd7] = {U1, _},                                            /* vphadduwd vphadduwq */
	[0xdb] = {U1, _},                                                     /* vphaddudq */
	[0xe1 ... 0xe3] = {U1, _},                                            /* vphsubbw vphsubwd vphsubdq */
};

const u8 dp_xopa[256][2] = {
	[0x10] = {Uj1, Uj1},                                                  /* bextr */
	[0x12] = {Vj1_03, Vj1_03},                                            /* lwpins */
};

/* clang-format on */
